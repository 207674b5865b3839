"""Shares of solution styles."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order, in_order, label, last_steps

TABLE = "styles"
CAPTION = (
    "How the samples of each policy divide among solution styles, and how many styles the samples of one question"
    " show on average. One colour filling a bar is collapse; the base model's bar is what there was to keep. Averaged"
    " over training seeds, at the last step. Drawn from tables/styles.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Stacked bars, a panel per dataset.

    Args:
        table: method, seed, step, dataset, style, share, low, high, distinct_styles.
        datasets: the order of the datasets.
    """
    if table.is_empty():
        raise ValueError("figure styles: the table has no rows; name style prefixes in evaluate.styles to draw it")
    rows = (
        theme.with_policy(last_steps(table))
        .group_by("method", "policy", "dataset", "style", maintain_order=True)
        .agg(pl.col("share", "distinct_styles").mean().round(6))
        .sort("dataset", maintain_order=True)
    )
    scale = theme.style_colour(rows["style"])
    rank = pl.col("style").replace_strict(scale.domain, list(range(len(scale.domain))), return_dtype=pl.Int32)
    first = pl.int_range(pl.len()).over("method", "dataset") == 0
    words = pl.format("{} styles", pl.col("distinct_styles").round(1))
    rows = rows.with_columns(rank=rank, label=pl.when(first).then(words))
    order = [label(name) for name in in_order(rows["method"])]
    base = alt.Chart().encode(y=alt.Y("policy:N", sort=order, title=None))
    bar = base.mark_bar(height={"band": 0.72}, stroke="white", strokeWidth=1).encode(
        x=alt.X(
            "share:Q", title="share of samples", axis=alt.Axis(format="%", tickCount=4), scale=alt.Scale(domain=[0, 1])
        ),
        color=alt.Color("style:N", scale=scale, sort=scale.domain, legend=alt.Legend(title=None)),
        order="rank:Q",
        tooltip=[
            theme.POLICY_TOOLTIP,
            alt.Tooltip("style:N", title="style"),
            alt.Tooltip("share:Q", title="share", format=".1%"),
            alt.Tooltip("distinct_styles:Q", title="styles per question", format=".2f"),
        ],
    )
    text = base.transform_filter("isValid(datum.label)").mark_text(align="left", dx=6, color="#20242c", fontSize=12)
    text = text.encode(x=alt.datum(1.0), text="label:N")
    panel = alt.layer(bar, text, data=rows.drop("method")).properties(width=230, height={"step": 30})
    return theme.themed(
        theme.wrapped(panel, "dataset", "Solution styles", 3, datasets_in_order(rows, datasets)), CAPTION
    )
