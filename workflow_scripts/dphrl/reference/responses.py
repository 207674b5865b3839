"""The stored responses as training reads them: memory-mapped, any row by its number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from safetensors import safe_open
from torch import Tensor

from dphrl.artifacts import read_table
from dphrl.model import Row


@dataclass(frozen=True)
class ReferenceResponses:
    """Rows of D_pef with their reference log-probs; nothing is read before a row is asked for."""

    path: Path
    index: pl.DataFrame

    def __len__(self) -> int:
        return self.index.height

    def rows(self, numbers: list[int]) -> tuple[list[Row], list[Tensor]]:
        """The rows and their reference log-probs, each float32 (response length)."""
        rows, logprobs = [], []
        with safe_open(self.path, framework="pt") as file:
            tokens, flat = file.get_slice("token_ids"), file.get_slice("logprobs")
            for number in numbers:
                entry = self.index.row(number, named=True)
                start, prompt_length, length = entry["start"], entry["prompt_length"], entry["response_length"]
                ids = tokens[start : start + prompt_length + length].tolist()
                rows.append(Row(ids[:prompt_length], ids[prompt_length:]))
                logprobs.append(flat[entry["response_start"] : entry["response_start"] + length].clone())
        return rows, logprobs


def load(path: Path) -> ReferenceResponses:
    """The stored responses from `responses.safetensors`, whose index stands beside it as `index.parquet`.

    Raises:
        ValueError: tensors and index do not belong together.
    """
    responses = ReferenceResponses(path, read_table(path.with_name("index.parquet"), "reference_index"))
    with safe_open(path, framework="pt") as file:
        found = {name: file.get_slice(name).get_shape()[0] for name in ("token_ids", "logprobs")}
    lengths = responses.index.select(
        logprobs=pl.col("response_length").cast(pl.Int64).sum(),
        token_ids=(pl.col("prompt_length") + pl.col("response_length")).cast(pl.Int64).sum(),
    ).row(0, named=True)
    if lengths != found:
        raise ValueError(f"{path}: holds {found} values but index.parquet expects {lengths}; rerun the reference stage")
    return responses
