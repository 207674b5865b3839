"""The reference stage on ranks that divide the model: what it stores is what one process stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from runs import ROOT
from safetensors.numpy import load_file
from tiny_models import tiny_model, write_tokenizer

from dphrl.config.blocks.base import Dtype
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.policy.ranks import RankError, run_ranks
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.training.reference import ReferenceJob, store_responses

# All matrices are above the 100,000 numbers up to which DeepSpeed keeps a parameter whole.
VOCABULARY = 2048
SHAPE = {"hidden_size": 384, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
DIVIDED = {"ranks": 2, "zero_stage": 3}
PROGRAM = str(ROOT / "tests" / "support" / "divided_reference.py")
TENSORS, INDEX = "responses.safetensors", "index.parquet"


def _job(folder: Path, responses: int, top_k: int, dtype: Dtype = "float32", **model: Any) -> ReferenceJob:
    """A job with so many stored responses, of which each micro-batch has one or a few, and one prompt of D_exp."""
    policy = folder / "policy"
    tiny_model(VOCABULARY, **SHAPE, **model).save_pretrained(policy)
    write_tokenizer(policy)
    generator = torch.Generator().manual_seed(1)

    def tokens(number: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (number,), generator=generator).tolist()

    names = [f"p{i}" for i in range(responses + 1)]
    made: dict[str, list[dict[str, Any]]] = {"partition": [], "prompts": [], "rollouts": []}
    for number, name in enumerate(names):
        pef = number < responses
        decided = {"subset": "pef" if pef else "exp", "reference_sample": 0 if pef else None}
        made["partition"].append({"prompt_id": name, "n": 2, "c": 2 * pef, "reason": "", **decided})
        origin = {"task": "sql", "messages": "[]", "thought_open": False, "source": "toy", "source_index": number}
        made["prompts"].append({"prompt_id": name, "prompt_token_ids": tokens(3 + number), **origin})
        answer = tokens(1 + 9 * number % 23)
        drawn = {"sample_index": 0, "seed": 1, "text": "", "finish_reason": "stop"}
        row = {"prompt_id": name, "token_ids": answer, "sampler_logprobs": [-7.0] * len(answer), **drawn}
        made["rollouts"] += [row] if pef else []
    for table, rows in made.items():
        write_table(pl.DataFrame(rows, schema=SCHEMAS[table].columns), table, folder / f"{table}.parquet", {})
    files = {table: str(folder / f"{table}.parquet") for table in ("partition", "prompts")}
    return ReferenceJob(
        policy=str(policy),
        dtype=dtype,
        topk_logprobs=top_k,
        rehearse="pef",
        rows_per_question=1,
        hardware=HardwareConfig(token_budget=40, kv_cache_gib=1),
        **files,
        rollouts=[str(folder / "rollouts.parquet")],
        output="",
        label="test",
    )


def _divided(job: ReferenceJob, **files: str) -> ReferenceJob:
    """The job on two ranks that divide the model."""
    return job.model_copy(update={"hardware": job.hardware.model_copy(update=DIVIDED), **files})


KINDS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "top-k and a head that is tied": (9, 3, {"kind": "qwen2", "tie_word_embeddings": True}),
    "in bfloat16": (9, 3, {"dtype": "bfloat16"}),
    "fewer than ranks, without top-k": (1, 0, {}),
    "none": (0, 3, {}),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each kind, with what one process stores in `one`, and two ranks in `two`; these start once."""
    folder, texts = tmp_path_factory.mktemp("stored"), []
    for kind, settings in KINDS.items():
        for name in ("one", "two"):
            (folder / kind / name).mkdir(parents=True)
        job = _job(folder / kind, *settings[:2], **settings[2])
        pl.concat(
            store_responses(job.model_copy(update={"output": str(folder / kind / "one" / TENSORS)}))
        ).write_parquet(folder / kind / "one" / INDEX)
        files = {"output": str(folder / kind / "two" / TENSORS), "index": str(folder / kind / "two" / INDEX)}
        texts.append(folder / kind / "text")
        texts[-1].write_text(_divided(job, **files).model_dump_json())
    run_ranks(2, [PROGRAM, "200", *map(str, texts)])
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_store_what_one_process_stores(stored: Path, kind: str) -> None:
    expected, found = (load_file(stored / kind / name / TENSORS) for name in ("one", "two"))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)
        np.testing.assert_allclose(found[name], tensor, rtol=0, atol=0 if name.endswith("ids") else 1e-5)
    alone, index = (pl.read_parquet(stored / kind / name / INDEX) for name in ("one", "two"))
    assert index.height == KINDS[kind][0]
    assert_frame_equal(index, alone, rel_tol=0, abs_tol=1e-5)


@pytest.mark.full
def test_ranks_that_fail_are_named_and_leave_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = _job(tmp_path, 1, VOCABULARY + 1)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(RankError, match=r"test: rank [01] ended with status 1"):
        next(store_responses(_divided(job, output=str(out / TENSORS))))
    assert "K = 2049" in capfd.readouterr().err
    assert not [*out.iterdir()]
