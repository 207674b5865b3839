"""Counts of a partition, also in words, and the refusal to train on nothing.

Trainings use this module, and not `partition`: a change of the division retrains only if its table changes.
"""

from typing import Final

import polars as pl

from dphrl.config.blocks.training import Rehearsed

_ANYHOW: Final = "To go on with what can be trained: partition.allow_empty"


class NothingToTrainError(ValueError):
    """A training has no question to roll out or to rehearse; the text names the key to change."""


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


def stored_rows(rehearse: Rehearsed, most: int) -> pl.Expr:
    """How many responses of a question are stored for a method, by the final partition.

    The right ones are c pre-samples, and for a question of D_pef its refinement sample: `most` of them at most. It is 0
    for a question that the method does not rehearse.

    Args:
        rehearse, most: the method's keys `rehearse` and `rows_per_question`.
    """
    c, in_pef, kept = pl.col("c"), pl.col("subset") == "pef", pl.col("subset") != "dropped"
    rehearsed = {"pef": in_pef, "right": kept & (c > 0), "boundary": kept & (c > 0) & (c < pl.col("n"))}[rehearse]
    return pl.when(rehearsed).then(pl.min_horizontal(c + in_pef.cast(pl.Int32), pl.lit(most))).otherwise(0)


def shortage(partition: pl.LazyFrame) -> str:
    """Which of D_pef and D_exp is empty, and the next step; empty where both have questions."""
    subsets = set(partition.select("subset").unique().collect()["subset"])
    if "pef" not in subsets:
        if counts := thresholds(partition):
            step = f"Lower partition.pef_min_correct. Questions by right pre-samples, before refinement: {counts}"
        else:
            step = (
                "No training question has a right sample. The logs of scoring say in how many an answer was found: if "
                "in few, set its place (scoring.<task>.answer), else see docs/how-to/supervised-start.md"
            )
        return f"D_pef is empty. {step}"
    if "exp" not in subsets:
        return "D_exp is empty. Raise partition.pef_min_correct, or add questions that the base model does not solve"
    return ""


def require_answers(verdicts: pl.LazyFrame) -> None:
    """Raise `NothingToTrainError` if no answer was found in most of the pre-samples."""
    missing = (pl.col("verdict") == "no_answer").sum()
    none, every = verdicts.select(missing, pl.len().alias("all")).collect().row(0)
    if 2 * none > every:
        raise NothingToTrainError(
            f"no answer was found in {none:,} of {every:,} pre-samples, so rewards would say little; the logs of their"
            f" scoring show one. Set the place of an answer (scoring.<task>.answer), or raise"
            f" sampling.presample.max_tokens where they are cut off. {_ANYHOW}"
        )


def require_questions(
    partition: pl.LazyFrame, training: str, *, rehearses: Rehearsed | None, explores: bool, prompts: int = 1
) -> None:
    """Raise `NothingToTrainError` if a training has too few questions.

    Args:
        training: its name or its method, for the message.
        rehearses: the questions whose stored responses it needs; None for a method without rehearsal.
        explores: whether its rollouts are on D_exp alone; else they are on both.
        prompts: how many a step draws; an epoch must fill a step.
    """
    drawn = partition.filter(pl.col("subset").is_in(["exp"] if explores else ["exp", "pef"]))
    number: int = drawn.select(pl.len()).collect().item()
    stored = rehearses is None or partition.select((stored_rows(rehearses, 1) > 0).any()).collect().item()
    if number >= prompts and stored:
        return
    lacking = shortage(partition)
    if number and stored:
        lacking = f"train.prompts_per_step is {prompts}, more than its {number} questions. Lower it, or add some"
    elif number and rehearses != "pef":
        counts = thresholds(partition) or "none has one"
        lacking = f"No question is one of rehearse: {rehearses}. Questions by right pre-samples: {counts}"
    without = "Or remove the method from `methods`"
    raise NothingToTrainError(f"{sizes(partition)}: {training} cannot start. {lacking}. {without}. {_ANYHOW}")
