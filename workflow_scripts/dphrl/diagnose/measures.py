"""Measures beside a diagnosis: shares of samples in each file, curves that cross, where a loss lies, and guesses."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from dphrl.diagnose.joined import Joined
from dphrl.evaluation import pass_at_k
from dphrl.evaluation.study import Policy

OF_BASE = ("none", "1", "2", "up to 1/4", "up to 1/2", "more")
"""Numbers of right samples under the base."""
# Above this k the curves are compared at steps of about 5 %: 10,000 samples of a question would take minutes.
_EVERY_K = 64
_STEP = 1.05
_TOLERANCE = 1e-9


def answers(joined: Joined) -> pl.DataFrame:
    """For each policy: questions, samples, and the shares of right, truncated, empty and repeated answers.

    `truncated` is null where the file does not say. `repeated` is the share of samples that repeat the text of an
    earlier sample of the same question. `repeated` and `empty` are null in a file without texts.
    """
    rows = [
        samples.select(
            method=pl.lit(name),
            questions=pl.col("prompt_id").n_unique(),
            samples=pl.len(),
            fewest=pl.col("prompt_id").rle().struct.field("len").min(),
            most=pl.col("prompt_id").rle().struct.field("len").max(),
            right=pl.col("correct").mean(),
            truncated=pl.col("truncated").cast(pl.Float64).mean(),
            empty=(~pl.col("text").str.contains(r"\S")).mean(),
            repeated=1.0 - of_question("text").n_unique() / pl.len(),
        )
        for name, samples in joined.rows.items()
    ]
    texts = pl.when(pl.col("empty") < 1.0)
    return pl.concat(rows).with_columns(texts.then(name).alias(name) for name in ("repeated", "empty"))


def of_question(column: str) -> pl.Expr:
    """A number for each pair of question and value. A struct of both would be the peak of memory."""
    return pl.col("prompt_id").hash(1) ^ pl.col(column).hash()


def crossing(base: Policy, tuned: Sequence[Policy]) -> pl.DataFrame:
    """The smallest k at which pass@k of each policy is below the base's; null if there is none up to `up_to`.

    `low`: first k whose interval of the difference contains negative values. `high`: first k whose interval is
    entirely negative. A null `high`: the policy may not cross up to `up_to`. A null `low`: it does not cross. k = 1:
    the policy is below from the start.
    """
    rows = []
    for policy in tuned:
        k = compared_k(min(base.n, policy.n))
        intervals = policy.ratio(policy.pass_at(k) - base.pass_at(k), proportion=False)
        below = (np.flatnonzero(curve < -_TOLERANCE) for curve in intervals)
        first = (k[places[0]] if places.size else None for places in below)
        rows.append((policy.key.method, policy.key.seed, *first, k[-1]))
    columns = {"method": pl.String(), "seed": pl.Int32()}
    return pl.DataFrame(rows, columns | dict.fromkeys(("k", "low", "high", "up_to"), pl.Int32()), orient="row")


def compared_k(most: int) -> list[int]:
    """The k from 1 to `most` at which curves are compared: all up to 64, then steps of about 5 %."""
    steps = int(np.ceil(np.log(max(most / _EVERY_K, 1.0)) / np.log(_STEP))) + 1
    above = np.geomspace(_EVERY_K, most, steps).round().astype(int).tolist() if most > _EVERY_K else []
    return sorted({*range(1, min(most, _EVERY_K) + 1), *above})


def by_base(base: Policy, tuned: Sequence[Policy], k: int) -> pl.DataFrame:
    """pass@k of both models by the base's number of right samples (`OF_BASE`): where a loss lies.

    A question with few right samples of the base may have been lucky, so an equal model solves some of them less often.
    """
    c, rate = base.right, base.solve_rates
    place = np.select([c == 0, c == 1, c == 2, rate <= 0.25, rate <= 0.5], range(5), 5)
    solved, after = base.pass_at([k])[:, 0], np.mean([policy.pass_at([k])[:, 0] for policy in tuned], axis=0)
    rows = [
        (tuned[0].key.method, OF_BASE[group], int(here.sum()), k, float(solved[here].mean()), float(after[here].mean()))
        for group in range(len(OF_BASE))
        if (here := place == group).any()
    ]
    columns = {"method": pl.String(), "right": pl.String(), "questions": pl.Int32(), "k": pl.Int32()}
    return pl.DataFrame(rows, schema=columns | dict.fromkeys(("base", "tuned"), pl.Float64()), orient="row")


def lost(base: Policy, tuned: Sequence[Policy]) -> pl.DataFrame:
    """The questions that the base solves and the tuned model does not, the base's surest first."""
    counts = {"base_right": base.right, "base_samples": base.sizes}
    counts["tuned_right"] = np.sum([policy.right for policy in tuned], axis=0)
    counts["tuned_samples"] = np.sum([policy.sizes for policy in tuned], axis=0)
    rows = base.rows.select("prompt_id").with_columns(pl.Series(name, values) for name, values in counts.items())
    unsolved = rows.filter(pl.col("base_right") > 0, pl.col("tuned_right") == 0).drop("tuned_right")
    return unsolved.sort(-pl.col("base_right") / pl.col("base_samples"), "prompt_id")


def guessed(base: pl.DataFrame, tuned: Sequence[pl.DataFrame], k: int) -> tuple[float, float] | None:
    """pass@k of base and tuned model with the right answer of another question: how often guesses hit a gold.

    The right class of a question is the most frequent class among its right samples in all files. The mean is over all
    other questions with such a class, not over drawn ones.

    Args:
        base, tuned: prompt_id, answer_class, correct; the same questions in each, k samples of each or more.

    Returns:
        None where fewer than two questions have a right class, or most pairs of questions have the same: then another
        question's answer is no guess.
    """
    key = ("prompt_id", "answer_class")
    files = [base, *tuned]
    right = pl.concat(frame.filter("correct").select(key) for frame in files).drop_nulls()
    ranked = right.group_by(key).len().sort("prompt_id", "len", "answer_class", descending=[False, True, False])
    golds = ranked.unique("prompt_id", keep="first", maintain_order=True).select(*key)
    if golds.height < 2:
        return None
    weights = golds.group_by("answer_class").agg(others=pl.len())
    alike = weights.select((pl.col("others") * (pl.col("others") - 1)).sum()).item()
    if alike > golds.height * (golds.height - 1) / 2:
        return None
    rates = []
    for frame in files:
        sizes = frame.group_by("prompt_id").agg(n=pl.len())
        classes = frame.select(key).drop_nulls("answer_class")
        counts = classes.group_by(key).agg(c=pl.len()).join(weights, on="answer_class")
        counts = counts.join(golds.with_columns(own=True), on=key, how="left").join(sizes, on="prompt_id")
        counts = counts.join(golds.select("prompt_id", known=True), on="prompt_id", how="left")
        # The answer of the question itself is no guess.
        others = counts["others"].cast(pl.Float64) - counts["own"].fill_null(False).cast(pl.Float64)
        share = others / (golds.height - counts["known"].fill_null(False).cast(pl.Float64))
        hit = np.asarray(pass_at_k(counts["n"].cast(pl.Int64), counts["c"].cast(pl.Int64), k))
        rates.append(float((share.to_numpy() * hit).sum()) / sizes.height)
    return rates[0], float(np.mean(rates[1:]))
