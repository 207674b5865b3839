"""Doubts about files of samples: questions chosen by these samples, and guesses."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.evaluation.estimator import pass_at_k

# By Chao's number, so many unsolved questions must be expected before their absence is a sign of a filter.
_UNSEEN = 5.0
_FEWEST_SAMPLES = 4


def look_chosen(n: NDArray[np.int64], c: NDArray[np.int64]) -> bool:
    """Whether questions that no sample solves, or that all solve, were taken out of a file.

    f_j questions have j right samples of n. Chao's bias-corrected number of questions that no sample solves is
    (n - 1) / n f_1 (f_1 - 1) / (2 (f_2 + 1)) (Chao 1987, Biometrics 43, 783-791). If this is five or more and the file
    holds none, a filter is likely; so too from the other end. Only questions with the most frequent n count.

    Args:
        n, c: (questions,), samples and right ones.
    """
    sizes, numbers = np.unique(n, return_counts=True)
    most = int(sizes[numbers.argmax()])
    if most < _FEWEST_SAMPLES:
        return False
    counts = np.bincount(c[n == most], minlength=most + 1).astype(float)
    ends = (counts[:3], counts[::-1][:3])
    unseen = ((most - 1) / most * f1 * (f1 - 1) / (2 * (f2 + 1)) for f0, f1, f2 in ends if not f0)
    return any(number >= _UNSEEN for number in unseen)


def guessed(files: Mapping[str, pl.DataFrame], k: int) -> dict[str, float] | None:
    """pass@k of each file with the right answer of another question: how often k answers hit a gold by chance.

    The right class of a question is the most frequent class among its right samples in all files. The mean is over all
    other questions with such a class, not over drawn ones.

    Args:
        files: prompt_id, answer_class, correct; the same questions in each, k samples of each or more.

    Returns:
        None where fewer than two questions have a right class, or most pairs of questions have the same: then another
        question's answer is no guess.
    """
    key = ("prompt_id", "answer_class")
    right = pl.concat(frame.filter("correct").select(key) for frame in files.values()).drop_nulls()
    ranked = right.group_by(key).len().sort("prompt_id", "len", "answer_class", descending=[False, True, False])
    golds = ranked.unique("prompt_id", keep="first", maintain_order=True).select(*key)
    if golds.height < 2:
        return None
    weights = golds.group_by("answer_class").agg(others=pl.len())
    alike = weights.select((pl.col("others") * (pl.col("others") - 1)).sum()).item()
    if alike > golds.height * (golds.height - 1) / 2:
        return None
    rates = {}
    for name, frame in files.items():
        sizes = frame.group_by("prompt_id").agg(n=pl.len())
        classes = frame.select(key).drop_nulls("answer_class")
        counts = classes.group_by(key).agg(c=pl.len()).join(weights, on="answer_class")
        counts = counts.join(golds.with_columns(own=True), on=key, how="left").join(sizes, on="prompt_id")
        counts = counts.join(golds.select("prompt_id", known=True), on="prompt_id", how="left")
        # The answer of the question itself is no guess.
        others = counts["others"].cast(pl.Float64) - counts["own"].fill_null(False).cast(pl.Float64)
        share = others / (golds.height - counts["known"].fill_null(False).cast(pl.Float64))
        hit = np.asarray(pass_at_k(counts["n"].cast(pl.Int64), counts["c"].cast(pl.Int64), k))
        rates[name] = float((share.to_numpy() * hit).sum()) / sizes.height
    return rates
