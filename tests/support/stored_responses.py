"""Stored responses, written as the reference stage writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs
from dphrl.store.parquet import write_table
from dphrl.training.reference import save_tensors, tensorise
from dphrl.training.stored_responses import ReferenceResponses, load


def table_of(
    rows: Sequence[Row], questions: Sequence[str] | None = None, sampler: Sequence[Sequence[float]] | None = None
) -> pl.DataFrame:
    """Rows as `reference_rows` gives them.

    Args:
        questions: the prompt id of each row; None: each row is of another question.
        sampler: the log-probs that the sampler recorded; None: it recorded none.
    """
    return pl.DataFrame(
        {
            "prompt_id": questions or [f"r{i:02d}" for i in range(len(rows))],
            "sample_index": 0,
            "prompt_token_ids": [[*row.prompt] for row in rows],
            "token_ids": [[*row.response] for row in rows],
            "sampler_logprobs": sampler or [[] for _ in rows],
        }
    )


def store(table: pl.DataFrame, module: LogProbs, top_k: int, folder: Path) -> ReferenceResponses:
    """Store rows, in two parts, with their log-probs under a policy."""
    folder.mkdir(exist_ok=True)
    parts = tensorise([table[:2], table[2:]], module, 1000, top_k)
    index = pl.concat(save_tensors(parts, folder / "responses.safetensors"))
    write_table(index, "reference_index", folder / "index.parquet", {})
    return load(folder / "responses.safetensors")
