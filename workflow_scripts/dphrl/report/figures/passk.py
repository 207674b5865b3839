"""Pass@k against k."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order

TABLE = "passk"
PUBLISHED = True
CAPTION = (
    "Share of questions solved by at least one of k samples. A policy that wins at k = 1 and loses at large k has"
    " narrowed: it repeats one answer where the base model had several. Lines are means over the training seeds, after"
    " the last step; bands are means of their bootstrap intervals over questions. Drawn from tables/passk.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Curves with bands, a panel per dataset."""
    if table.is_empty():
        raise ValueError("figure passk: the table has no rows, so no policy was evaluated")
    rows = theme.mean_over_seeds(table, "k", "value", "low", "high")
    if published is not None:
        solved = published.filter(pl.col("metric").str.starts_with("pass@"))
        published = solved.with_columns(k=pl.col("metric").str.strip_prefix("pass@").cast(pl.Int32))
    rows = theme.with_published(rows, published, ["method", "dataset", "k"])
    k = alt.Axis(values=rows["k"].unique().sort().to_list(), format="d", grid=False)
    percent = alt.Axis(format="%", tickCount=5)
    base, selected = theme.policy_lines(
        rows,
        "method",
        alt.X("k:Q", title="k (samples per question)", scale=alt.Scale(type="log", base=2), axis=k),
        alt.Y("value:Q", title="pass@k", scale=alt.Scale(zero=False, nice=True), axis=percent),
    )
    band = base.mark_area().encode(
        y=alt.Y("low:Q", title="pass@k"),
        y2="high:Q",
        opacity=alt.when(selected).then(alt.value(0.09)).otherwise(alt.value(0.02)),
    )
    value = [alt.Tooltip("k:Q", title="k"), alt.Tooltip("value:Q", title="pass@k", format=".1%")]
    points = base.encode(shape=theme.policy_shape(rows))
    point = points.mark_point(filled=True, size=55).properties(name="points").add_params(selected)
    point = point.encode(tooltip=[theme.POLICY_TOOLTIP, *value, *theme.interval_tooltips()])
    layers = [band, base.mark_line(strokeWidth=2), point]
    panel = theme.panel(layers, points, rows, [theme.POLICY_TOOLTIP, *value]).properties(width=260, height=220)
    return theme.faceted(panel, rows, "dataset", "Pass@k", 3, datasets_in_order(rows, datasets), CAPTION)
