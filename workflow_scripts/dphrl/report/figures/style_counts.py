"""How many solution styles a question still has."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order, in_order, label, last_steps

TABLE = "style_counts"
CAPTION = (
    "Questions by the number of different styles among their samples. A bar that is all light has one style left: that"
    " is collapse; the base model's bar is what there was to keep. Averaged over training seeds, at the last step."
    " Drawn from tables/style_counts.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Stacked bars, a panel per dataset.

    Args:
        table: method, seed, step, dataset, styles, share, low, high.
        datasets: the order of the datasets.
    """
    if table.is_empty():
        raise ValueError(
            "figure style_counts: the table has no rows; name style prefixes in evaluate.styles to draw it"
        )
    rows = (
        theme.with_policy(last_steps(table))
        .group_by("method", "policy", "dataset", "styles", maintain_order=True)
        .agg(pl.col("share").mean().round(6))
        .sort("dataset", "styles", maintain_order=True)
    )
    order = [label(name) for name in in_order(rows["method"])]
    bar = (
        alt.Chart(rows.drop("method"))
        .mark_bar(height={"band": 0.72}, stroke="white", strokeWidth=1)
        .encode(
            x=alt.X(
                "share:Q",
                title="share of questions",
                axis=alt.Axis(format="%", tickCount=4),
                scale=alt.Scale(domain=[0, 1]),
            ),
            y=alt.Y("policy:N", sort=order, title=None),
            color=alt.Color("styles:O", scale=alt.Scale(scheme="blues"), legend=alt.Legend(title="styles")),
            order="styles:Q",
            tooltip=[
                theme.POLICY_TOOLTIP,
                alt.Tooltip("styles:Q", title="styles"),
                alt.Tooltip("share:Q", title="share", format=".1%"),
            ],
        )
    )
    panel = alt.layer(bar).properties(width=230, height={"step": 30})
    return theme.themed(
        theme.wrapped(panel, "dataset", "Styles per question", 3, datasets_in_order(rows, datasets)), CAPTION
    )
