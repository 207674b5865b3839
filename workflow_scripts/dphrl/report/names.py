"""The order of datasets, and the rows of last steps, for tables, figures and pages."""

from collections.abc import Sequence

import polars as pl

# Rows of the policies of a training: here, or elsewhere for a list under `checkpoints`, which has seeds and no steps.
# A single checkpoint and recorded answers have neither.
OF_TRAININGS = (pl.col("step") > 0) | (pl.col("seed") > 0)


def datasets_in_order(table: pl.DataFrame, order: Sequence[str]) -> list[str]:
    """The datasets of a table in the given order, all others after them alphabetically."""
    return sorted(set(table["dataset"]), key=lambda name: (order.index(name) if name in order else len(order), name))


def last_steps(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of the last step of each method and seed."""
    return table.filter(pl.col("step") == pl.col("step").max().over("method", "seed"))


def at_published_k(table: pl.DataFrame) -> pl.DataFrame:
    """Of each dataset the rows of k = 8, as published (arXiv 2509.07430, Figure 4), else the nearest k."""
    k = pl.col("k")
    below, smallest = k.filter(k <= 8).max().over("dataset"), k.min().over("dataset")
    return table.filter(k == pl.coalesce(below, smallest))
