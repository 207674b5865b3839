"""What a training of each method costs, for the comparison of methods (arXiv 2509.07430)."""

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS


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
