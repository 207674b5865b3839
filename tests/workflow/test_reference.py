"""The reference stage on ranks that divide the model: what it stores is what one process stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file
from tiny_models import tiny_model, write_tokenizer

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file, sidecar
from dphrl.artifacts.tables import write_table
from dphrl.ranks.launch import RankError
from dphrl.reference.job import ReferenceJob
from dphrl.reference.launch import store_responses

pytestmark = pytest.mark.workflow

# All matrices are above the 100,000 numbers up to which DeepSpeed keeps a parameter whole.
VOCABULARY = 2048
SHAPE = {"hidden_size": 384, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
DIVIDED = {"ranks": 2, "zero_stage": 3}


def _job(folder: Path, responses: int, top_k: int, **model: Any) -> ReferenceJob:
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
        origin = {"task": "sql", "messages": "[]", "source": "toy", "source_index": number}
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
        dtype="float32",
        top_k=top_k,
        hardware={"token_budget": 40, "kv_cache_gib": 1},
        **files,
        rollouts=[str(folder / "rollouts.parquet")],
        output="",
        label="test",
    )


def _stored(job: ReferenceJob, folder: Path, **hardware: Any) -> tuple[dict[str, np.ndarray], pl.DataFrame]:
    """Tensors and index, with the block `hardware` changed; nothing else is left in the folder."""
    folder.mkdir()
    tensors = folder / "responses.safetensors"
    changed = replace(job, output=str(tensors), hardware={**job.hardware, **hardware})
    index = pl.concat(store_responses(changed))
    assert sorted(folder.iterdir()) == [tensors, sidecar(tensors)]
    assert sidecar(tensors).read_text() == f"{sha256_file(tensors)}  responses.safetensors\n"
    return load_file(tensors), index


@pytest.mark.parametrize(
    ("responses", "top_k", "model"),
    [
        pytest.param(9, 0, {}, id="log-probs"),
        pytest.param(9, 3, {"kind": "qwen2", "tie_word_embeddings": True}, id="top-k and a head that is tied"),
        pytest.param(1, 3, {}, id="fewer than ranks"),
        pytest.param(0, 3, {}, id="none"),
    ],
)
def test_two_ranks_store_what_one_process_stores(
    tmp_path: Path, responses: int, top_k: int, model: dict[str, Any]
) -> None:
    job = _job(tmp_path, responses, top_k, **model)
    expected, alone = _stored(job, tmp_path / "one")
    found, index = _stored(job, tmp_path / "two", **DIVIDED)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)
        if name.endswith("ids"):
            np.testing.assert_array_equal(found[name], tensor)
        else:
            np.testing.assert_allclose(found[name], tensor, rtol=0, atol=1e-5)
    gap = pl.col("max_sampler_gap")
    assert index.height == responses
    assert index.drop("max_sampler_gap").equals(alone.drop("max_sampler_gap"))
    assert index.select(gap).to_series().to_list() == pytest.approx(alone["max_sampler_gap"].to_list(), abs=1e-5)


def test_ranks_that_fail_leave_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = _job(tmp_path, 1, VOCABULARY + 1)
    with pytest.raises(RankError, match=r"test: rank [01] ended with status 1.* Nothing was kept: run snakemake again"):
        _stored(job, tmp_path / "two", **DIVIDED)
    assert "top-K with K = 2049: expected 1 to 2048" in capfd.readouterr().err
    assert not [*(tmp_path / "two").iterdir()]
