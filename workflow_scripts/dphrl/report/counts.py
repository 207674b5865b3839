"""Tables that count: rows of datasets, and use and cost of trainings."""

from collections.abc import Mapping, Sequence

import polars as pl

from dphrl.store.catalogue import SCHEMAS

_GOLD = SCHEMAS["gold"].enums["reason"]
# Columns of the table "datasets": reasons why rows were rejected, findings in gold answers, and kinds of overlap.
REJECTED = SCHEMAS["rejected"].enums["reason"]
FOUND = tuple(reason.replace("-", "_") for reason in _GOLD)
SHARED = ("overlap_exact", "overlap_normalised")


def count_rows(datasets: Mapping[str, Sequence[pl.DataFrame]], overlap: pl.DataFrame) -> pl.DataFrame:
    """The table "datasets": rows of each file, prompts and rejected rows, and prompts whose gold answer is kept.

    Columns: rows = prompts + duplicate + conflict + overlong + malformed; prompts whose gold is kept; golds found
    unrunnable, empty, order-ambiguous, text-only or conflicting, whether dropped for it or not; and prompts
    that are also training prompts (exactly, or except for case, spacing and punctuation).

    Args:
        datasets: by name, the tables "prompts", "rejected" and "gold".
        overlap: the table of this name.
    """
    rows = []
    for name, (prompts, rejected, gold) in datasets.items():
        shared = overlap.filter(pl.col("dataset") == name)["kind"]
        rows.append(
            {
                "dataset": name,
                "rows": prompts.height + rejected.height,
                "prompts": prompts.height,
                **{reason: (rejected["reason"] == reason).sum() for reason in REJECTED},
                "kept": gold["kept"].sum(),
                **{reason.replace("-", "_"): (gold["reason"] == reason).sum() or 0 for reason in _GOLD},
                **{column: (shared == column.removeprefix("overlap_")).sum() for column in SHARED},
            }
        )
    return SCHEMAS["datasets"].frame(rows)


_USED = ("prompts", "rollouts", "drawn_tokens", "stored_tokens")


def training_use(
    training: pl.DataFrame, labels: Sequence[tuple[str, int]], timings: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """Mean use of a training, by method. Methods compare at equal steps, prompts or tokens, not at all three.

    Args:
        training: the table "training".
        labels, timings: method and seed, and the timings, of every segment of every training.

    Returns:
        method str, trainings u32 (how many the means are over), steps f64, prompts, rollouts, drawn_tokens f64 (with
        the tokens that dynamic sampling left out), stored_tokens f64 (of rehearsed responses), seconds f64; sorted by
        method.
    """
    used = training.group_by("method", "seed").agg(
        pl.col("step").max().cast(pl.Float64).alias("steps"),
        *(pl.col("value").filter(metric=name).sum().alias(name) for name in _USED),
    )
    whole = pl.col("part").is_in(("imports", "total"))
    spent = pl.concat(
        rows.filter(whole).select("seconds", method=pl.lit(method), seed=pl.lit(seed, pl.Int32))
        for (method, seed), rows in zip(labels, timings, strict=True)
    )
    spent = spent.group_by("method", "seed").agg(pl.col("seconds").sum())
    means = used.join(spent, on=["method", "seed"], how="left").group_by("method")
    return means.agg(pl.len().alias("trainings"), pl.col("steps", *_USED, "seconds").mean()).sort("method")
