"""Tables that count: rows of datasets, and use and cost of trainings."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from dphrl.store.catalogue import SCHEMAS

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

    Columns: rows = prompts + duplicate + conflict + overlong + malformed; prompts whose gold is kept; golds found
    unrunnable, empty, order-ambiguous, constant, text-only or conflicting, whether dropped for it or not; and prompts
    that are also training prompts (exactly, or except for case, spacing and punctuation).
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


_USED = ("prompts", "rollouts", "drawn_tokens", "stored_tokens")


def training_cost(timings: pl.DataFrame) -> pl.DataFrame:
    """Seconds and tokens of one training of each method, by part.

    Args:
        timings: method str, seed i32, part str, seconds f64, tokens i64|null of every segment of every training.

    Returns:
        method str, part str, trainings i32 (how many the means are over), seconds f64, tokens f64|null (means of all
        segments of a training), tokens_per_s f64|null; sorted by method and part.
    """
    tokens = pl.when(pl.col("tokens").count() > 0).then(pl.col("tokens").sum())
    parts = timings.group_by("method", "part").agg(pl.col("seconds").sum(), tokens=tokens)
    # Over all trainings of a method, also where only some of them have a part.
    counts = timings.group_by("method").agg(trainings=pl.col("seed").n_unique())
    rate = pl.when(pl.col("seconds") > 0).then(pl.col("tokens") / pl.col("seconds"))
    costs = parts.join(counts, on="method").with_columns(rate.alias("tokens_per_s"))
    means = costs.with_columns(pl.col("seconds", "tokens") / pl.col("trainings"))
    return means.select(list(SCHEMAS["training_cost"].columns)).sort("method", "part")


def training_use(training: pl.DataFrame) -> pl.DataFrame:
    """Mean use of a training, by method. Methods compare at equal steps, prompts or tokens, not at all three.

    Args:
        training: the table "training".

    Returns:
        method str, trainings i32 (how many the means are over), steps f64, prompts, rollouts, drawn_tokens f64 (with
        the tokens that dynamic sampling left out), stored_tokens f64 (of rehearsed responses); sorted by method.
    """
    of_trainings = training.group_by("method", "seed").agg(
        pl.col("step").max().cast(pl.Float64).alias("steps"),
        *(pl.col("value").filter(metric=name).sum().alias(name) for name in _USED),
    )
    means = of_trainings.group_by("method").agg(
        pl.len().cast(pl.Int32).alias("trainings"), pl.col("steps", *_USED).mean()
    )
    return means.select(list(SCHEMAS["training_use"].columns)).sort("method")
