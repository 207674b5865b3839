"""The stored responses: from rollouts to tensors and back, one row at a time."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dphrl.artifacts import SCHEMAS, sha256_file, sidecar, write_table
from dphrl.model import LogProbs, Row, response_logprobs
from dphrl.reference import ReferenceResponses, load, reference_rows, save_tensors, tensorise

PROMPTS = {"a": [1, 2, 3], "b": [4], "c": [5, 6], "d": [7, 8]}
RESPONSES = {"a": [9, 10], "c": [11, 12, 13, 14], "d": [15]}


@pytest.fixture(scope="module")
def module() -> LogProbs:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
    )
    return LogProbs(LlamaForCausalLM(config))


def _partition(subsets: dict[str, str]) -> pl.DataFrame:
    rows = [
        {"prompt_id": name, "n": 2, "c": 2, "subset": s, "reason": "", "reference_sample": 0 if s == "pef" else None}
        for name, s in subsets.items()
    ]
    return pl.DataFrame(rows, schema=SCHEMAS["partition"].columns)


PARTITION = _partition({"d": "pef", "b": "exp", "a": "pef", "c": "pef"})
PROMPT_FRAME = pl.DataFrame(
    [
        {
            "prompt_id": name,
            "task": "sql",
            "messages": "[]",
            "prompt_token_ids": ids,
            "source": "toy",
            "source_index": i,
        }
        for i, (name, ids) in enumerate(PROMPTS.items())
    ],
    schema=SCHEMAS["prompts"].columns,
)


def _refined(module: LogProbs) -> pl.DataFrame:
    """Rollouts of the refine plan whose sampler is off by 0.25 at the last token."""
    rows = []
    for name, ids in RESPONSES.items():
        (logprobs,) = response_logprobs(module, [Row(PROMPTS[name], ids)], 100)
        logprobs[-1] -= 0.25
        rows.append(
            {
                "prompt_id": name,
                "sample_index": 0,
                "seed": 1,
                "token_ids": ids,
                "sampler_logprobs": logprobs.tolist(),
                "text": "",
                "finish_reason": "stop",
            }
        )
    return pl.DataFrame(rows, schema=SCHEMAS["rollouts"].columns)


def _stored(folder: Path, module: LogProbs, partition: pl.DataFrame = PARTITION) -> ReferenceResponses:
    rows = reference_rows(partition, PROMPT_FRAME, _refined(module))
    tensors, index = tensorise(rows, module, token_budget=6)
    folder.mkdir(exist_ok=True)
    save_tensors(tensors, folder / "responses.safetensors")
    write_table(index, "reference_index", folder / "index.parquet", {})
    return load(folder / "responses.safetensors")


def test_rows_are_those_of_d_pef_in_key_order(module: LogProbs) -> None:
    rows = reference_rows(PARTITION, PROMPT_FRAME[::-1], _refined(module)[::-1])
    assert rows.columns == ["prompt_id", "sample_index", "prompt_token_ids", "token_ids", "sampler_logprobs"]
    assert rows["prompt_id"].to_list() == ["a", "c", "d"]
    assert rows["prompt_token_ids"].to_list() == [PROMPTS[name] for name in "acd"]
    assert rows["token_ids"].to_list() == [RESPONSES[name] for name in "acd"]


def test_what_is_stored_comes_back_by_row_number(tmp_path: Path, module: LogProbs) -> None:
    stored = _stored(tmp_path, module)
    assert len(stored) == 3
    for numbers in ([0, 1, 2], [2, 0], [1, 1], []):
        rows, logprobs = stored.rows(numbers)
        names = ["acd"[i] for i in numbers]
        assert [(row.prompt, row.response) for row in rows] == [(PROMPTS[n], RESPONSES[n]) for n in names]
        expected = [response_logprobs(module, [Row(PROMPTS[n], RESPONSES[n])], 100)[0] for n in names]
        for found, ours in zip(logprobs, expected, strict=True):
            torch.testing.assert_close(found, ours, atol=1e-5, rtol=0)
            assert found.dtype == torch.float32


def test_the_index_says_where_each_row_lies_and_how_far_the_sampler_was_off(tmp_path: Path, module: LogProbs) -> None:
    index = _stored(tmp_path, module).index
    assert index.drop("max_sampler_gap").rows() == [
        (0, "a", 0, 0, 3, 2, 0),
        (1, "c", 0, 5, 2, 4, 2),
        (2, "d", 0, 11, 2, 1, 6),
    ]
    assert index["max_sampler_gap"].to_list() == pytest.approx([0.25] * 3, abs=1e-4)


def test_a_changed_row_does_not_reach_the_file(tmp_path: Path, module: LogProbs) -> None:
    stored = _stored(tmp_path, module)
    before = sha256_file(stored.path)
    stored.rows([0])[1][0].fill_(0.0)
    assert stored.rows([0])[1][0].abs().min() > 0
    assert sha256_file(stored.path) == before


def test_equal_responses_have_equal_bytes_and_a_sidecar(tmp_path: Path, module: LogProbs) -> None:
    first, second = (_stored(tmp_path / name, module) for name in "ab")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert sidecar(first.path).read_text() == f"{sha256_file(first.path)}  responses.safetensors\n"


def test_without_d_pef_there_are_no_rows(tmp_path: Path, module: LogProbs) -> None:
    stored = _stored(tmp_path, module, _partition(dict.fromkeys(PROMPTS, "exp")))
    assert len(stored) == 0
    assert stored.rows([]) == ([], [])


def test_a_prompt_without_its_refined_sample_is_an_error(module: LogProbs) -> None:
    with pytest.raises(ValueError, match="1 D_pef prompts lack a prompt or a refined sample, first c"):
        reference_rows(PARTITION, PROMPT_FRAME, _refined(module).filter(pl.col("prompt_id") != "c"))
    with pytest.raises(ValueError, match="2 D_pef prompts lack a prompt or a refined sample, first a"):
        reference_rows(PARTITION, PROMPT_FRAME[3:], _refined(module))


@pytest.mark.parametrize("shorter", ["token_ids", "logprobs"])
def test_tensors_and_index_that_do_not_belong_together_are_refused(
    tmp_path: Path, module: LogProbs, shorter: str
) -> None:
    path = _stored(tmp_path, module).path
    tensors = {"token_ids": np.zeros(14, np.int32), "logprobs": np.zeros(7, np.float32)}
    save_tensors(tensors, path)
    load(path)
    tensors[shorter] = tensors[shorter][:-1]
    save_tensors(tensors, path)
    with pytest.raises(ValueError, match=r"responses\.safetensors: holds .* but index\.parquet expects .* rerun"):
        load(path)
