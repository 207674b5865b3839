"""What the weight of a divergence does."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order, last_steps

TABLE = "ablation"
PUBLISHED = True
CAPTION = (
    "Greedy accuracy and pass@k against the weight eta of the divergence, for methods that differ in nothing else. A"
    " line that rises in pass@k and falls in greedy accuracy trades one for the other. Bars are bootstrap intervals"
    " over questions; one point for each training seed, at its last step. Drawn from tables/ablation.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Points with intervals and lines through their means, a panel per dataset and metric."""
    if table.is_empty():
        raise ValueError("figure eta: the table has no rows; it needs two methods that differ in eta alone")
    panels = [
        f"{dataset} · {metric}"
        for dataset in datasets_in_order(table, datasets)
        for metric in _metrics(table.filter(dataset=dataset))
    ]
    rows = last_steps(table).with_columns(
        pl.col("value", "low", "high").round(6), panel=pl.format("{} · {}", "dataset", "metric")
    )
    rows = rows.filter(pl.col("panel").is_in(panels)).sort("family", "eta", "seed", "dataset", "metric")
    rows = theme.with_published(rows, published, ["method", "dataset", "metric"])
    families = sorted(set(rows["family"]))
    base = alt.Chart(rows.drop("method")).encode(
        x=alt.X("eta:O", title="eta", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("family:N", scale=alt.Scale(paddingOuter=0.5)),
        color=theme.colour("family", families),
    )
    scale = alt.Scale(zero=False)
    line = base.mark_line(strokeWidth=2).encode(y=alt.Y("mean(value):Q", scale=scale))
    points = base.encode(y=alt.Y("value:Q", scale=scale), shape=theme.shape("family", families))
    tip = [
        alt.Tooltip("family:N", title="divergence"),
        alt.Tooltip("eta:Q", title="eta"),
        alt.Tooltip("panel:N", title="metric"),
        alt.Tooltip("value:Q", title="share", format=".1%"),
    ]
    low = alt.Y("low:Q", title="share of questions", axis=alt.Axis(format="%", tickCount=5))
    rule, point = theme.interval_layers(base, points, low, [*tip, theme.SEED_TOOLTIP, *theme.interval_tooltips()])
    drawn = theme.panel([rule, line, point], points, rows, tip).properties(width=260, height=180)
    chart = theme.faceted(drawn, rows, "panel", "Weight of the divergence", 2, panels, CAPTION)
    return chart.resolve_scale(y="independent")


def _metrics(table: pl.DataFrame) -> list[str]:
    """Greedy, or the mean where there is none, and pass@k of the largest k."""
    found = set(table["metric"])
    solved = sorted((name for name in found if name.startswith("pass@")), key=lambda name: int(name[5:]))
    single = ["greedy"] if "greedy" in found else sorted(name for name in found if name.startswith("mean@"))
    return [*single, *solved[-1:]]
