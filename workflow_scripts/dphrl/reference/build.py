"""D_pef as tensors: the stored responses with their reference log-probs, by the training forward pass."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from dphrl.artifacts.files import replacing, seal
from dphrl.model.batch import Row
from dphrl.model.logprobs import LogProbs, response_logprobs, response_topk

# The dtypes of the tensors, as safetensors calls them, and their width.
_DTYPES: Final = {"float32": "F32", "int32": "I32"}
_BYTES: Final = 4
_BYTES_OF_SIZE: Final = 8
_CHUNK: Final = 1 << 20


def reference_rows(partition: pl.DataFrame, prompts: pl.DataFrame, refined: pl.DataFrame) -> pl.DataFrame:
    """One row per D_pef prompt in key order: prompt_id, sample_index, prompt_token_ids, token_ids, sampler_logprobs.

    Args:
        partition: the final partition; its D_pef rows name their reference sample.
        prompts: the training prompts.
        refined: rollouts of the refine plan.

    Raises:
        ValueError: a D_pef prompt has no prompt row or no refined sample.
    """
    rows = (
        partition.filter(pl.col("subset") == "pef")
        .select("prompt_id", sample_index="reference_sample")
        .join(prompts.select("prompt_id", "prompt_token_ids"), on="prompt_id", how="left")
        .join(refined.drop("seed", "text", "finish_reason"), on=["prompt_id", "sample_index"], how="left")
        .sort("prompt_id")
    )
    lost = rows.filter(pl.col("prompt_token_ids").is_null() | pl.col("token_ids").is_null())
    if lost.height:
        raise ValueError(f"{lost.height} D_pef prompts lack a prompt or a refined sample, first {lost['prompt_id'][0]}")
    return rows


def tensorise(
    rows: pl.DataFrame, module: LogProbs, token_budget: int, top_k: int = 0
) -> tuple[dict[str, np.ndarray], pl.DataFrame]:
    """Tensors and index of the stored responses.

    Args:
        rows: as `reference_rows` gives them.
        module: the reference policy in the precision of training.
        token_budget: most padded tokens per forward pass.
        top_k: how many of the reference's likeliest tokens to store per response position; 0 for none.

    Returns:
        Flat tensors `token_ids` (int32; prompt then response, row after row) and `logprobs` (float32; of every response
        token under the untruncated softmax at temperature 1), with `top_k` also `topk_ids` (int32) and `topk_logprobs`
        (float32), both (response tokens, top_k), the largest first; and the index (row, prompt_id, offsets, lengths,
        largest gap to the sampler's log-probs, null where the response was recorded without them).

    Raises:
        ValueError: `top_k` exceeds the vocabulary.
    """
    pairs = [Row(p, r) for p, r in rows.select("prompt_token_ids", "token_ids").iter_rows()]
    if top_k:
        parts = response_topk(module, pairs, token_budget, top_k)
    else:
        parts = [(logprobs,) for logprobs in response_logprobs(module, pairs, token_budget)]
    logprobs = [part[0].numpy() for part in parts]
    gaps = [
        float(np.abs(ours - np.asarray(theirs, dtype=np.float32)).max()) if theirs else None
        for ours, theirs in zip(logprobs, rows["sampler_logprobs"].to_list(), strict=True)
    ]
    prompt_lengths = np.array([len(pair.prompt) for pair in pairs], dtype=np.int64)
    response_lengths = np.array([len(pair.response) for pair in pairs], dtype=np.int64)
    index = pl.DataFrame(
        {
            "row": range(len(pairs)),
            "prompt_id": rows["prompt_id"],
            "sample_index": rows["sample_index"],
            "start": _starts(prompt_lengths + response_lengths),
            "prompt_length": prompt_lengths,
            "response_length": response_lengths,
            "response_start": _starts(response_lengths),
            "max_sampler_gap": pl.Series(gaps, dtype=pl.Float64),
        }
    )
    tokens = [token for pair in pairs for token in (*pair.prompt, *pair.response)]
    tensors = {
        "token_ids": np.array(tokens, dtype=np.int32),
        "logprobs": np.concatenate([np.empty(0, np.float32), *logprobs]).astype(np.float32),
    }
    if top_k:
        tensors |= {
            "topk_ids": np.concatenate([np.empty((0, top_k), np.int64), *(part[1].numpy() for part in parts)]).astype(
                np.int32
            ),
            "topk_logprobs": np.concatenate([np.empty((0, top_k), np.float32), *(part[2].numpy() for part in parts)]),
        }
    return tensors, index


def tensorise_parts(
    parts: Iterable[pl.DataFrame], module: LogProbs, token_budget: int, top_k: int = 0
) -> Iterator[tuple[dict[str, np.ndarray], pl.DataFrame]]:
    """As `tensorise` for each part of the rows, with one index over all of them."""
    rows = tokens = response_tokens = 0
    for part in parts:
        tensors, index = tensorise(part, module, token_budget, top_k)
        yield (
            tensors,
            index.with_columns(
                pl.col("row") + rows, pl.col("start") + tokens, pl.col("response_start") + response_tokens
            ),
        )
        rows, tokens = rows + len(index), tokens + len(tensors["token_ids"])
        response_tokens += len(tensors["logprobs"])


def save_tensors(tensors: dict[str, np.ndarray], path: Path) -> None:
    """Write the tensors of all rows as safetensors with their sidecar."""
    for _ in save_parts([(tensors, pl.DataFrame())], path):
        pass


def save_parts(parts: Iterable[tuple[dict[str, np.ndarray], pl.DataFrame]], path: Path) -> Iterator[pl.DataFrame]:
    """Yield the index of each part; when all are through, their tensors lie end to end in `path`, with its sidecar.

    A safetensors file begins with the sizes, so each tensor waits in a file of its own until they are known.
    """
    with replacing(path) as temporary:
        folder = temporary.with_name(f".{temporary.name}.tmp")
        folder.mkdir()
        try:
            shapes: dict[tuple[str, str], list[int]] = {}
            for tensors, index in parts:
                for name, tensor in tensors.items():
                    with (folder / name).open("ab") as file:
                        tensor.tofile(file)
                    key = _DTYPES[tensor.dtype.name], name
                    shapes[key] = [shapes.get(key, [0])[0] + len(tensor), *tensor.shape[1:]]
                yield index
            with temporary.open("wb") as file:
                file.write(_header(shapes))
                for _, name in sorted(shapes):
                    with (folder / name).open("rb") as waiting:
                        shutil.copyfileobj(waiting, file, _CHUNK)
        finally:
            shutil.rmtree(folder)
    seal(path)


def _header(shapes: dict[tuple[str, str], list[int]]) -> bytes:
    """The first bytes of a safetensors file: tensors by dtype and name, and their shapes."""
    entries, end = {}, 0
    for dtype, name in sorted(shapes):
        start, end = end, end + _BYTES * math.prod(shapes[dtype, name])
        entries[name] = {"dtype": dtype, "shape": shapes[dtype, name], "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _BYTES_OF_SIZE)
    return len(text).to_bytes(_BYTES_OF_SIZE, "little") + text


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)[: len(lengths)]
