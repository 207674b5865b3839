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


def store(
    rows: Sequence[Row], sampler: Sequence[Sequence[float]], module: LogProbs, top_k: int, folder: Path
) -> ReferenceResponses:
    """Store rows, in two parts, with their log-probs under a policy.

    Args:
        sampler: the log-probs that the sampler recorded.
    """
    table = pl.DataFrame(
        {
            "prompt_id": [f"r{i:02d}" for i in range(len(rows))],
            "sample_index": 0,
            "prompt_token_ids": [[*row.prompt] for row in rows],
            "token_ids": [[*row.response] for row in rows],
            "sampler_logprobs": [[*logprobs] for logprobs in sampler],
        }
    )
    parts = tensorise([table[:2], table[2:]], module, 1000, top_k)
    index = pl.concat(save_tensors(parts, folder / "responses.safetensors"))
    write_table(index, "reference_index", folder / "index.parquet", {})
    return load(folder / "responses.safetensors")
