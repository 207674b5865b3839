"""Counts of the rows of each dataset: prompts, rejected rows, audited gold answers, overlap."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS

_GOLD = SCHEMAS["gold"].enums["reason"]
# Columns of the table "datasets": reasons why rows were rejected, findings in gold answers, and kinds of overlap.
REJECTED = SCHEMAS["rejected"].enums["reason"]
FOUND = tuple(reason.replace("-", "_") for reason in _GOLD)
SHARED = ("overlap_exact", "overlap_normalised")


@dataclass(frozen=True)
class Prepared:
    """The tables of one dataset: its prompts, the rows that were rejected, and its audited gold answers."""

    prompts: pl.DataFrame
    rejected: pl.DataFrame
    gold: pl.DataFrame


def count_rows(datasets: Mapping[str, Prepared], overlap: pl.DataFrame) -> pl.DataFrame:
    """The table "datasets": rows of each file, prompts and rejected rows, and prompts whose gold answer is kept.

    Columns: rows = prompts + duplicate + overlong + malformed; prompts whose gold is kept; golds found unrunnable,
    empty, nondeterministic, order-ambiguous, constant, text-only or conflicting, whether dropped for it or not; and
    prompts that are also training prompts (exactly, or except for case, spacing and punctuation).
    """
    rows = []
    for name, tables in datasets.items():
        shared = overlap.filter(pl.col("dataset") == name)["kind"]
        rows.append(
            {
                "dataset": name,
                "rows": tables.prompts.height + tables.rejected.height,
                "prompts": tables.prompts.height,
                **{reason: (tables.rejected["reason"] == reason).sum() for reason in REJECTED},
                "kept": tables.gold["kept"].sum(),
                **{reason.replace("-", "_"): (tables.gold["reason"] == reason).sum() or 0 for reason in _GOLD},
                **{column: (shared == column.removeprefix("overlap_")).sum() for column in SHARED},
            }
        )
    return SCHEMAS["datasets"].frame(rows)
