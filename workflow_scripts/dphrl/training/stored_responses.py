"""The stored responses as training reads them: memory-mapped, any row by its number; and which a step rehearses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dphrl.policy.batch import Row
from dphrl.store.parquet import read_footer
from dphrl.training.schedule import epoch_indices

_POSITION = ("start", "prompt_length", "response_length", "response_start")


@dataclass(frozen=True)
class ReferenceResponses:
    """Stored responses with their reference log-probs; rows are read from disk on each call.

    Attributes:
        path: the tensors.
        index: positions of each row in them, by row number; on disk too.
        starts: number of the first row of each question, and at the end the number of rows, (questions + 1).
        top_k: number of the reference's likeliest tokens stored per response position; 0 for none.
    """

    path: Path
    index: pl.LazyFrame
    starts: np.ndarray
    top_k: int

    def __len__(self) -> int:
        return int(self.starts[-1])

    def of_step(self, seed: int, step: int, per_step: int) -> list[int]:
        """Numbers of the rows that a step rehearses.

        Questions count alike: an epoch has each once, in its own order. Epoch e takes row e mod m of the m rows of a
        question. There must be a row.
        """
        total = len(self.starts) - 1
        questions = epoch_indices(seed, "rehearsal", step, per_step, total)
        epochs = np.arange((step - 1) * per_step, step * per_step) // total
        rows: list[int] = (self.starts[questions] + epochs % np.diff(self.starts)[questions]).tolist()
        return rows

    def rows(self, numbers: Sequence[int]) -> tuple[list[Row], list[Tensor]]:
        """The rows and their reference log-probs, each float32 (response length)."""
        rows, logprobs = [], []
        with safe_open(self.path, framework="pt") as file:
            tokens, flat = file.get_slice("token_ids"), file.get_slice("logprobs")
            for start, prompt_length, length, response_start in self._positions(numbers):
                ids = tokens[start : start + prompt_length + length].tolist()
                rows.append(Row(ids[:prompt_length], ids[prompt_length:]))
                logprobs.append(flat[response_start : response_start + length].clone())
        return rows, logprobs

    def topk(self, numbers: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """The reference's likeliest tokens of these rows, int32 (response length, K), and their log-probs, float32."""
        ids, logprobs = [], []
        with safe_open(self.path, framework="pt") as file:
            tokens, values = file.get_slice("topk_ids"), file.get_slice("topk_logprobs")
            for _, _, length, start in self._positions(numbers):
                ids.append(tokens[start : start + length].clone())
                logprobs.append(values[start : start + length].clone())
        return ids, logprobs

    def _positions(self, numbers: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Of each row its start, the lengths of prompt and response, and the start of the response's log-probs."""
        # A slice decodes one row group; a filter would decode the whole column of row numbers.
        positions = pl.collect_all([self.index.slice(number, 1).select(_POSITION) for number in numbers])
        return [position.row(0) for position in positions]


def load(path: Path) -> ReferenceResponses:
    """The reference responses from `responses.safetensors`, with `index.parquet` in the same folder.

    Raises:
        ValueError: the tensors are damaged, or do not belong to the index.
    """
    footer = read_footer(path.with_name("index.parquet"))
    index, rows = pl.scan_parquet(path.with_name("index.parquet"), glob=False), footer["rows"]
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
    except SafetensorError as error:
        raise ValueError(f"{path}: not readable tensors ({error}); delete it and run snakemake again") from error
    top_k = shapes.get("topk_ids", (0, 0))[-1]
    last = index.slice(rows - 1, 1).select(_POSITION).collect().row(0) if rows else (0, 0, 0, 0)
    start, prompt_length, length, response_start = last
    responses = response_start + length
    expected: dict[str, tuple[int, ...]] = {"logprobs": (responses,), "token_ids": (start + prompt_length + length,)}
    if top_k:
        expected |= dict.fromkeys(("topk_ids", "topk_logprobs"), (responses, top_k))
    if shapes != expected:
        raise ValueError(
            f"{path}: holds {shapes} values but index.parquet expects {expected}; rerun the reference stage"
        )
    firsts = index.select(pl.col("row").filter(pl.col("prompt_id").is_first_distinct())).collect()["row"]
    return ReferenceResponses(path, index, np.append(firsts.to_numpy(), rows), top_k)
