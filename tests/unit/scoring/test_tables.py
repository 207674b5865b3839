"""Verdicts as tables, and what the terminal says of them."""

import polars as pl

from dphrl.scoring.tables import correct


def test_greedy_samples_are_counted_apart() -> None:
    judged = [("a", -1, True), ("a", 0, True), ("a", 1, False), ("b", -1, False), ("b", 0, False), ("b", 1, False)]
    verdicts = pl.LazyFrame(judged, ["prompt_id", "sample_index", "correct"], orient="row")
    assert correct(verdicts) == "1 of 4 samples correct, 1 of 2 greedy ones correct"
    assert correct(verdicts.filter(pl.col("sample_index") >= 0)) == "1 of 4 samples correct"
