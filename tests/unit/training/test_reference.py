"""The stored responses: from rollouts to tensors and back, one row at a time."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file, save
from tiny_models import tiny_model, write_tiny_policy
from torch import Tensor, nn

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, response_logprobs, response_topk
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.training.reference import load_reference, reference_rows, save_tensors, tensorise
from dphrl.training.stored_responses import ReferenceResponses, load

PROMPTS = {"a": [1, 2, 3], "b": [4], "c": [5, 6], "d": [7, 8]}
RESPONSES = {"a": [9, 10], "c": [11, 12, 13, 14], "d": [15]}


@pytest.fixture(scope="module")
def module() -> LogProbs:
    return LogProbs(tiny_model(20))


def test_the_reference_is_computed_on_the_device_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device without data stands for a GPU; only results leave it."""
    write_tiny_policy(tmp_path)
    monkeypatch.setattr("dphrl.training.reference.device_of_job", lambda: "meta")
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    module = load_reference(tmp_path, "float32", "auto")
    seen: list[str] = []

    def record(layer: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        seen.extend(value.device.type for value in (*args, *kwargs.values()) if isinstance(value, Tensor))

    for layer in module.modules():
        layer.register_forward_pre_hook(record, with_kwargs=True)
    rows = [Row([2, 3, 4], [5, 6]), Row([7], [8])]
    assert [len(part) for part in response_logprobs(module, rows, 100)] == [2, 1]
    assert [[part.shape for part in row] for row in response_topk(module, rows, 100, 3)][1][1] == (1, 3)
    assert {*seen} == {"meta"}


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
            "thought_open": False,
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


def _stored(folder: Path, module: LogProbs, partition: pl.DataFrame = PARTITION, top_k: int = 0) -> ReferenceResponses:
    rows = reference_rows(partition, PROMPT_FRAME, _refined(module))
    folder.mkdir(exist_ok=True)
    (index,) = save_tensors(tensorise([rows], module, 6, top_k), folder / "responses.safetensors")
    write_table(index, "reference_index", folder / "index.parquet", {})
    return load(folder / "responses.safetensors")


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
    index = _stored(tmp_path, module).index.collect()
    assert index.drop("max_sampler_gap").rows() == [
        (0, "a", 0, 0, 3, 2, 0),
        (1, "c", 0, 5, 2, 4, 2),
        (2, "d", 0, 11, 2, 1, 6),
    ]
    assert index["max_sampler_gap"].to_list() == pytest.approx([0.25] * 3, abs=1e-4)


@pytest.mark.parametrize("top_k", [0, 3])
def test_tensors_that_come_in_parts_are_those_of_the_whole(tmp_path: Path, module: LogProbs, top_k: int) -> None:
    rows = reference_rows(PARTITION, PROMPT_FRAME, _refined(module))
    ((whole, index),) = tensorise([rows], module, 1, top_k)
    parts = tensorise([rows[:1], rows[1:1], rows[1:]], module, 1, top_k)
    path = tmp_path / "responses.safetensors"
    of_parts = pl.concat(save_tensors(parts, path))
    assert of_parts.equals(index)
    assert path.read_bytes() == save(whole)
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_part_that_fails_leaves_no_file(tmp_path: Path, module: LogProbs) -> None:
    def parts() -> Iterator[tuple[dict[str, np.ndarray], pl.DataFrame]]:
        yield from tensorise([reference_rows(PARTITION, PROMPT_FRAME, _refined(module))], module, 100)
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        list(save_tensors(parts(), tmp_path / "responses.safetensors"))
    assert not list(tmp_path.iterdir())


def test_without_d_pef_there_are_no_rows(tmp_path: Path, module: LogProbs) -> None:
    stored = _stored(tmp_path, module, _partition(dict.fromkeys(PROMPTS, "exp")))
    assert len(stored) == stored.top_k == 0
    assert stored.rows([]) == ([], [])
    with_topk = _stored(tmp_path, module, _partition(dict.fromkeys(PROMPTS, "exp")), top_k=3)
    assert with_topk.top_k == 3
    assert with_topk.topk([]) == ([], [])


def test_the_likeliest_tokens_come_back_by_row_number(tmp_path: Path, module: LogProbs) -> None:
    top_k = 4
    stored = _stored(tmp_path, module, top_k=top_k)
    assert stored.top_k == top_k
    ids, logprobs = stored.topk([2, 0, 2])
    rows, _ = stored.rows([2, 0, 2])
    for row, found, values in zip(rows, ids, logprobs, strict=True):
        (_, expected, of_them), *_ = response_topk(module, [row], 100, top_k)
        assert found.tolist() == expected.tolist()
        torch.testing.assert_close(values, of_them, atol=1e-5, rtol=0)
        assert (found.dtype, values.dtype) == (torch.int32, torch.float32)
    values.fill_(0.0)
    assert stored.topk([2])[1][0].abs().min() > 0


def test_the_rest_does_not_change_with_the_likeliest_tokens(tmp_path: Path, module: LogProbs) -> None:
    without, with_topk = _stored(tmp_path / "a", module), _stored(tmp_path / "b", module, top_k=2)
    assert sorted(load_file(without.path)) == ["logprobs", "token_ids"]
    for name, tensor in load_file(without.path).items():
        np.testing.assert_array_equal(load_file(with_topk.path)[name], tensor)
    assert with_topk.index.collect().equals(without.index.collect())


def test_likeliest_tokens_that_are_not_stored_are_an_error(tmp_path: Path, module: LogProbs) -> None:
    with pytest.raises(
        ValueError, match=r"responses\.safetensors: holds no top-K log-probs; rerun .* reference.topk_logprobs > 0"
    ):
        _stored(tmp_path, module).topk([0])


def test_opening_a_large_file_and_reading_a_row_leaves_the_rest_on_disk(tmp_path: Path) -> None:
    prompt_length, length, top_k, rows = 500, 500, 64, 800
    total = rows * length
    shapes = {
        "logprobs": ("F32", [total]),
        "token_ids": ("I32", [rows * (prompt_length + length)]),
        "topk_ids": ("I32", [total, top_k]),
        "topk_logprobs": ("F32", [total, top_k]),
    }
    ends = np.cumsum([0, *(4 * np.prod(shape) for _, shape in shapes.values())]).tolist()
    header = json.dumps(
        {
            name: {"dtype": dtype, "shape": shape, "data_offsets": ends[i : i + 2]}
            for i, (name, (dtype, shape)) in enumerate(shapes.items())
        }
    ).encode()
    path = tmp_path / "responses.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + ends[-1])
    numbers = np.arange(rows)
    index = pl.DataFrame(
        {
            "row": numbers,
            "prompt_id": [f"{i:04}" for i in numbers],
            "sample_index": 0 * numbers,
            "start": numbers * (prompt_length + length),
            "prompt_length": 0 * numbers + prompt_length,
            "response_length": 0 * numbers + length,
            "response_start": numbers * length,
            "max_sampler_gap": 0.0 * numbers,
        }
    ).cast(dict(SCHEMAS["reference_index"].columns))
    write_table(index, "reference_index", tmp_path / "index.parquet", {})
    assert path.stat().st_size > 200_000_000
    # The first call imports and caches things that have nothing to do with the size.
    load(path)
    before = _resident()
    stored = load(path)
    ids, logprobs = stored.topk([rows - 1])
    assert len(stored.rows([0])[0][0].prompt) == prompt_length
    assert ids[0].shape == logprobs[0].shape == (length, top_k)
    assert _resident() - before < 20 << 20


def _resident() -> int:
    """Bytes of this process in memory, mapped files among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("shorter", ["token_ids", "logprobs", "topk_ids", "topk_logprobs"])
def test_tensors_and_index_that_do_not_belong_together_are_refused(
    tmp_path: Path, module: LogProbs, shorter: str
) -> None:
    path = _stored(tmp_path, module).path
    tensors = {"token_ids": np.zeros(14, np.int32), "logprobs": np.zeros(7, np.float32)}
    list(save_tensors([(tensors, pl.DataFrame())], path))
    load(path)
    tensors |= {"topk_ids": np.zeros((7, 3), np.int32), "topk_logprobs": np.zeros((7, 3), np.float32)}
    list(save_tensors([(tensors, pl.DataFrame())], path))
    load(path)
    tensors[shorter] = tensors[shorter][:-1]
    list(save_tensors([(tensors, pl.DataFrame())], path))
    with pytest.raises(ValueError, match=r"responses\.safetensors: holds .* but index\.parquet expects .* rerun"):
        load(path)


def test_a_truncated_file_is_named(tmp_path: Path, module: LogProbs) -> None:
    path = _stored(tmp_path, module).path
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(
        ValueError, match=r"responses\.safetensors: not readable tensors .* delete it and run snakemake"
    ):
        load(path)
