"""Pass@k against k."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.names import datasets_in_order, last_steps
from dphrl.report.theme import (
    finished,
    panel,
    policy_colour,
    policy_shape,
    told,
    with_policy,
    with_published,
    wrapped,
)

TABLE = "passk"
PUBLISHED = True
CAPTION = (
    "Share of questions solved by at least one of k samples. A policy that wins at k = 1 and loses at large k has"
    " narrowed: it repeats one answer where the base model had several. Bands are bootstrap intervals over questions;"
    " one line for each training seed, at its last step. Drawn from tables/passk.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Curves with bands, a panel per dataset.

    Args:
        table: method, seed, step, dataset, k, value, low, high.
        datasets: the order of the datasets.
        published: method, dataset, metric, value.
    """
    if table.is_empty():
        raise ValueError("figure passk: the table has no rows, so no policy was evaluated")
    rows = with_policy(last_steps(table)).with_columns(pl.col("value", "low", "high").round(6))
    if published is not None:
        solved = published.filter(pl.col("metric").str.starts_with("pass@"))
        published = solved.with_columns(k=pl.col("metric").str.strip_prefix("pass@").cast(pl.Int32))
    rows = with_published(rows, published, ["method", "dataset", "k"])
    highlight = alt.selection_point(name="highlight", fields=["policy"], bind="legend")
    k = alt.X("k:Q", title="k (samples per question)", scale=alt.Scale(type="log", base=2))
    k = k.axis(values=rows["k"].unique().sort().to_list(), format="d", grid=False)
    percent = alt.Axis(format="%", tickCount=5)
    share = alt.Y("value:Q", title="pass@k", scale=alt.Scale(zero=False, nice=True), axis=percent)
    colour = alt.Color("policy:N", scale=policy_colour(rows), legend=alt.Legend(title=None))
    shape = alt.Shape("policy:N", scale=policy_shape(rows), legend=alt.Legend(title=None))
    tip = [
        alt.Tooltip("policy:N", title="policy"),
        alt.Tooltip("seed:Q", title="seed"),
        alt.Tooltip("step:Q", title="step"),
        alt.Tooltip("k:Q", title="k"),
        alt.Tooltip("value:Q", title="pass@k", format=".1%"),
        alt.Tooltip("low:Q", title="from", format=".1%"),
        alt.Tooltip("high:Q", title="to", format=".1%"),
    ]
    base = alt.Chart(rows.drop("method")).encode(x=k, color=colour, detail="seed:N")
    band = base.mark_area().encode(
        y=alt.Y("low:Q", title="pass@k"),
        y2="high:Q",
        opacity=alt.when(highlight).then(alt.value(0.09)).otherwise(alt.value(0.02)),
    )
    strong = alt.when(highlight).then(alt.value(1.0)).otherwise(alt.value(0.12))
    line = base.mark_line(strokeWidth=2).encode(y=share, opacity=strong)
    point = base.mark_point(filled=True, size=55).encode(y=share, shape=shape, opacity=strong, tooltip=tip)
    point = point.properties(name="points").add_params(highlight)
    hollow = base.encode(y=share, shape=shape, opacity=strong, tooltip=[alt.Tooltip("source:N"), tip[0], *tip[3:5]])
    drawn = panel([band, line, point], hollow, rows).properties(width=260, height=220)
    return finished(wrapped(drawn, "dataset", "Pass@k", 3, datasets_in_order(rows, datasets)), told(CAPTION, rows))
