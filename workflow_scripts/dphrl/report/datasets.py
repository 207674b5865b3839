"""What became of the rows of each dataset."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS

_GOLD = SCHEMAS["gold"].enums["reason"]
# Columns of the table "datasets": why rows were rejected, and what was found in gold answers.
REJECTED = SCHEMAS["rejected"].enums["reason"]
FOUND = tuple(reason.replace("-", "_") for reason in _GOLD)


@dataclass(frozen=True)
class Prepared:
    """The tables of one dataset: its prompts, the rows that were rejected, and its audited gold answers."""

    prompts: pl.DataFrame
    rejected: pl.DataFrame
    gold: pl.DataFrame


def count_rows(datasets: Mapping[str, Prepared], overlap: pl.DataFrame) -> pl.DataFrame:
    """The table "datasets": from the rows of each file to the prompts with a gold answer that is kept.

    Columns: rows = prompts + duplicate + overlong + malformed; kept of the prompts; how many golds were found
    unrunnable, empty, nondeterministic, order-ambiguous or conflicting, whether they were dropped for it or not; and
    how many prompts are training prompts too (exactly, or but for case, spacing and punctuation).
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
                **{
                    column: (tables.gold["reason"] == reason).sum() or 0
                    for column, reason in zip(FOUND, _GOLD, strict=True)
                },
                **{f"overlap_{kind}": (shared == kind).sum() for kind in ("exact", "normalised")},
            }
        )
    return SCHEMAS["datasets"].frame(rows)
