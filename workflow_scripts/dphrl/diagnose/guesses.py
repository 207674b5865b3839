"""Right answers by guessing."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from dphrl.evaluation import pass_at_k


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
