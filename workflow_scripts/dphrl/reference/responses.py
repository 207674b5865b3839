"""The stored responses as training reads them: memory-mapped, any row by its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from safetensors import safe_open
from torch import Tensor

from dphrl.artifacts import read_table
from dphrl.model import Row


@dataclass(frozen=True)
class ReferenceResponses:
    """Rows of D_pef with their reference log-probs; nothing is read before a row is asked for.

    Attributes:
        path: the tensors.
        index: where each row lies in them.
        top_k: number of the reference's likeliest tokens that are stored per response position; 0 for none.
    """

    path: Path
    index: pl.DataFrame
    top_k: int

    def __len__(self) -> int:
        return self.index.height

    def rows(self, numbers: Sequence[int]) -> tuple[list[Row], list[Tensor]]:
        """The rows and their reference log-probs, each float32 (response length)."""
        rows, logprobs = [], []
        with safe_open(self.path, framework="pt") as file:
            tokens, flat = file.get_slice("token_ids"), file.get_slice("logprobs")
            for number in numbers:
                start, prompt_length, length, response_start = self._place(number)
                ids = tokens[start : start + prompt_length + length].tolist()
                rows.append(Row(ids[:prompt_length], ids[prompt_length:]))
                logprobs.append(flat[response_start : response_start + length].clone())
        return rows, logprobs

    def topk(self, numbers: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """The reference's likeliest tokens of these rows, int32 (response length, K), and their log-probs, float32.

        Raises:
            ValueError: none are stored.
        """
        if not self.top_k:
            raise ValueError(f"{self.path}: holds no top-K log-probs; rerun the reference stage with top_k > 0")
        ids, logprobs = [], []
        with safe_open(self.path, framework="pt") as file:
            tokens, values = file.get_slice("topk_ids"), file.get_slice("topk_logprobs")
            for number in numbers:
                _, _, length, start = self._place(number)
                ids.append(tokens[start : start + length].clone())
                logprobs.append(values[start : start + length].clone())
        return ids, logprobs

    def _place(self, number: int) -> tuple[int, int, int, int]:
        entry = self.index.row(number, named=True)
        return entry["start"], entry["prompt_length"], entry["response_length"], entry["response_start"]


def load(path: Path) -> ReferenceResponses:
    """The stored responses from `responses.safetensors`, whose index stands beside it as `index.parquet`.

    Raises:
        ValueError: tensors and index do not belong together.
    """
    index = read_table(path.with_name("index.parquet"), "reference_index")
    with safe_open(path, framework="pt") as file:
        found = {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
    lengths = index.select(
        all=(pl.col("prompt_length") + pl.col("response_length")).cast(pl.Int64).sum(),
        response=pl.col("response_length").cast(pl.Int64).sum(),
    ).row(0, named=True)
    top_k = found.get("topk_ids", (0, 0))[-1]
    expected: dict[str, tuple[int, ...]] = {"logprobs": (lengths["response"],), "token_ids": (lengths["all"],)}
    if top_k:
        expected |= dict.fromkeys(("topk_ids", "topk_logprobs"), (lengths["response"], top_k))
    if found != expected:
        raise ValueError(
            f"{path}: holds {found} values but index.parquet expects {expected}; rerun the reference stage"
        )
    return ReferenceResponses(path, index, top_k)
