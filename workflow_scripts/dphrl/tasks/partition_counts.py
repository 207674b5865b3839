"""Counts of a partition in words, and the refusal of an empty D_pef.

Trainings use this module, and not `partition`: a change of the division retrains only if its table changes.
"""

import polars as pl


class NoRehearsalError(ValueError):
    """D_pef is empty, but a training rehearses it; the text names the key to change."""


def sizes(partition: pl.LazyFrame) -> str:
    """The sizes of the subsets."""
    counts = dict(partition.group_by("subset").agg(pl.len()).collect().iter_rows())
    pef, exp, dropped = (counts.get(subset, 0) for subset in ("pef", "exp", "dropped"))
    return f"{pef} near-perfect (D_pef), {exp} exploration (D_exp), {dropped} dropped"


def thresholds(partition: pl.LazyFrame) -> str:
    """How many questions with a usable gold have at least 1, 2, ... right pre-samples, from the most on."""
    usable = partition.filter(~pl.col("reason").str.starts_with("gold: ")).select("c", "n").collect()
    most: int = usable.select(pl.col("n").max()).item() or 0
    counts = {least: usable.filter(pl.col("c") >= least).height for least in range(most, 0, -1)}
    named = {least: f"{least} or more" if least < most else f"all {most}" for least in counts}
    return ", ".join(f"{named[least]}: {count}" for least, count in counts.items() if count)


def require_rehearsal(partition: pl.LazyFrame, training: str) -> None:
    """Raise `NoRehearsalError` if D_pef, which this training rehearses, is empty."""
    if partition.filter(subset="pef").select(pl.len()).collect().item():
        return
    counts = thresholds(partition)
    advice = "No training question has a right sample: look at the verdicts, the scorer and the prompts"
    if counts:
        advice = f"Lower partition.pef_min_correct. Questions by right pre-samples, before refinement: {counts}"
    raise NoRehearsalError(
        f"D_pef is empty, and {training} rehearses it. {advice}. Or remove the method from `methods`"
    )
