"""The stored responses as tensors: back by row number, part by part, and refused where they are damaged."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file, save
from stored_responses import store, table_of
from tiny_models import tiny_model, write_tiny_policy
from torch import Tensor, nn

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, response_logprobs
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.training.reference import compute_here, load_reference, save_tensors, tensorise
from dphrl.training.stored_responses import ReferenceResponses, load

ROWS = [Row([1, 2, 3], [9, 10]), Row([5, 6], [11, 12, 13, 14]), Row([7, 8], [15])]
TOP_K = 4


@pytest.fixture(scope="module")
def module() -> LogProbs:
    return LogProbs(tiny_model(20))


@pytest.fixture(scope="module")
def exact(module: LogProbs) -> list[tuple[Tensor, ...]]:
    """Log-probs, likeliest tokens and their log-probs of each row alone."""
    return [compute_here(module, [row], module.plan([row], 100, "off"), TOP_K)[0] for row in ROWS]


@pytest.fixture(scope="module")
def table(exact: list[tuple[Tensor, ...]]) -> pl.DataFrame:
    """The rows, with log-probs of a sampler that is off by 0.25 at the last token."""
    sampler = [[*logprobs[:-1].tolist(), float(logprobs[-1]) - 0.25] for logprobs, *_ in exact]
    return table_of(ROWS, ["a", "c", "d"], sampler)


@pytest.fixture
def stored(table: pl.DataFrame, module: LogProbs, tmp_path: Path) -> ReferenceResponses:
    return store(table, module, TOP_K, tmp_path / "stored")


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
    assert compute_here(module, rows, module.plan(rows, 100, "off"), 3)[1][1].shape == (1, 3)
    assert {*seen} == {"meta"}


def test_what_is_stored_comes_back_by_row_number(stored: ReferenceResponses, exact: list[tuple[Tensor, ...]]) -> None:
    assert (len(stored), stored.top_k) == (3, TOP_K)
    for numbers in ([0, 1, 2], [2, 0], [1, 1], []):
        rows, logprobs = stored.rows(numbers)
        ids, likeliest = stored.topk(numbers)
        assert rows == [ROWS[number] for number in numbers]
        for number, *ours in zip(numbers, logprobs, ids, likeliest, strict=True):
            for values, expected in zip(ours, exact[number], strict=True):
                torch.testing.assert_close(values, expected.to(values), atol=1e-5, rtol=0)
            assert [values.dtype for values in ours] == [torch.float32, torch.int32, torch.float32]
    _, (likeliest_of_row,) = stored.topk([2])
    likeliest_of_row.fill_(0.0)
    assert stored.topk([2])[1][0].abs().min() > 0


def test_the_index_says_where_each_row_lies_and_how_far_the_sampler_was_off(stored: ReferenceResponses) -> None:
    index = stored.index.collect()
    assert index.drop("max_sampler_gap").rows() == [
        (0, "a", 0, 0, 3, 2, 0),
        (1, "c", 0, 5, 2, 4, 2),
        (2, "d", 0, 11, 2, 1, 6),
    ]
    assert index["max_sampler_gap"].to_list() == pytest.approx([0.25] * 3, abs=1e-4)


@pytest.mark.parametrize("top_k", [0, 3])
def test_tensors_that_come_in_parts_are_those_of_the_whole(
    tmp_path: Path, table: pl.DataFrame, module: LogProbs, top_k: int
) -> None:
    ((whole, index),) = tensorise([table], module, 1, top_k)
    parts = tensorise([table[:1], table[1:1], table[1:]], module, 1, top_k)
    path = tmp_path / "responses.safetensors"
    of_parts = pl.concat(save_tensors(parts, path))
    assert of_parts.equals(index)
    assert path.read_bytes() == save(whole)
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_part_that_fails_leaves_no_file(tmp_path: Path, table: pl.DataFrame, module: LogProbs) -> None:
    def parts() -> Iterator[tuple[dict[str, np.ndarray], pl.DataFrame]]:
        yield from tensorise([table], module, 100)
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        list(save_tensors(parts(), tmp_path / "responses.safetensors"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("top_k", [0, 3])
def test_without_d_pef_there_are_no_rows(tmp_path: Path, table: pl.DataFrame, module: LogProbs, top_k: int) -> None:
    stored = store(table.clear(), module, top_k, tmp_path)
    assert (len(stored), stored.top_k) == (0, top_k)
    assert stored.rows([]) == ([], [])


def test_the_rest_does_not_change_with_the_likeliest_tokens(
    tmp_path: Path, stored: ReferenceResponses, table: pl.DataFrame, module: LogProbs
) -> None:
    without = store(table, module, 0, tmp_path / "without")
    assert sorted(load_file(without.path)) == ["logprobs", "token_ids"]
    for name, tensor in load_file(without.path).items():
        np.testing.assert_array_equal(load_file(stored.path)[name], tensor)
    assert stored.index.collect().equals(without.index.collect())


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


def test_tensors_and_index_that_do_not_belong_together_are_refused(stored: ReferenceResponses) -> None:
    whole = load_file(stored.path)
    for name, tensor in whole.items():
        list(save_tensors([(whole | {name: tensor[:-1]}, pl.DataFrame())], stored.path))
        with pytest.raises(ValueError, match=r"responses\.safetensors: holds .* but index\.parquet expects .* rerun"):
            load(stored.path)


def test_a_truncated_file_is_named(stored: ReferenceResponses) -> None:
    stored.path.write_bytes(stored.path.read_bytes()[:-8])
    with pytest.raises(
        ValueError, match=r"responses\.safetensors: not readable tensors .* delete it and run snakemake"
    ):
        load(stored.path)
