"""Coverage against mean accuracy in the course of training: what equal steps do not show."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order

TABLE = "headline"
CAPTION = (
    "Pass@k at the largest k against mean accuracy, a point for each evaluated step and a line for each training, which"
    " starts at the base model. Methods gain accuracy at different speeds, so a gap after the same number of steps may"
    " be one of speed: compare lines at the same mean accuracy. Drawn from tables/headline.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """A path for each training, a panel per dataset."""
    if table.filter(pl.col("step") > 0).is_empty():
        raise ValueError("figure paths: the table has no trained policy")
    metric = pl.col("metric")
    named = table.filter(metric.str.contains(r"^(mean|pass)@\d+$")).with_columns(
        kind=metric.str.extract(r"^(\w+)@"), k=metric.str.extract(r"@(\d+)$").cast(pl.Int32)
    )
    largest = named.filter(pl.col("k") == pl.col("k").max().over("dataset", "kind"))
    policy = ["method", "seed", "step", "dataset"]
    points = largest.pivot("kind", on_columns=["mean", "pass"], index=policy, values="value")
    trained = points.filter(pl.col("step") > 0)
    start = points.filter(pl.col("method") == "base").drop("method", "seed")
    lines = trained.select("method", "seed", "dataset").unique()
    rows = pl.concat([trained, lines.join(start, on="dataset").select(trained.columns)])
    rows = theme.with_policy(rows).with_columns(pl.col("mean", "pass").round(6))
    percent = alt.Axis(format="%", tickCount=5)
    base, selected = theme.policy_lines(
        rows,
        "method",
        alt.X("mean:Q", title="mean accuracy", scale=alt.Scale(zero=False, nice=True), axis=percent),
        alt.Y("pass:Q", title="pass@k", scale=alt.Scale(zero=False, nice=True), axis=percent),
    )
    titles = {"mean": "mean accuracy", "pass": "pass@k"}
    values = [alt.Tooltip(f"{name}:Q", title=title, format=".1%") for name, title in titles.items()]
    point = base.mark_point(filled=True, size=40).encode(
        shape=theme.policy_shape(rows), tooltip=[*theme.TRAINING_TOOLTIPS, *values]
    )
    line = base.mark_line(strokeWidth=1).encode(detail="seed:N", order="step:Q")
    panel = alt.layer(line, point.add_params(selected)).properties(width=260, height=220)
    order = datasets_in_order(rows, datasets)
    return theme.faceted(panel, rows, "dataset", "Coverage against mean accuracy", 3, order, CAPTION)
