"""How many solution styles the samples show."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.figures import theme
from dphrl.report.headline import datasets_in_order

_STYLES = (
    "How the samples of each policy divide among solution styles, and how many styles the samples of one question"
    " show on average. One colour filling a bar is collapse; the base model's bar is what there was to keep. Averaged"
    " over training seeds, at the last step. Drawn from tables/styles.parquet."
)


def draw_styles(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """One bar per policy, stacked by the share of each style, with the mean number of styles. A panel per dataset."""
    if table.is_empty():
        raise ValueError("figure styles: the table has no rows; name style prefixes in evaluate.styles")
    rows = theme.mean_over_seeds(table, "style", "share", "distinct_styles")
    scale = theme.style_colour(rows["style"])
    rank = pl.col("style").replace_strict(scale.domain, list(range(len(scale.domain))), return_dtype=pl.Int32)
    first = pl.int_range(pl.len()).over("method", "dataset") == 0
    words = pl.col("distinct_styles").map_elements(lambda count: f"{count:.2f} styles", return_dtype=pl.String)
    rows = rows.with_columns(rank=rank, label=pl.when(first).then(words))
    base = alt.Chart().encode(y=theme.policy_axis(rows))
    colour = alt.Color("style:N", scale=scale, sort=scale.domain, legend=alt.Legend(title=None))
    tooltip = [
        theme.POLICY_TOOLTIP,
        alt.Tooltip("style:N", title="style"),
        theme.SHARE_TOOLTIP,
        alt.Tooltip("distinct_styles:Q", title="styles per question", format=".2f"),
    ]
    bar = theme.share_bars(base, "share of samples", color=colour, order="rank:Q", tooltip=tooltip)
    text = base.transform_filter("isValid(datum.label)").mark_text(align="left", dx=6, color="#20242c", fontSize=12)
    text = text.encode(x=alt.datum(1.0), text="label:N")
    panel = alt.layer(bar, text, data=rows.drop("method")).properties(width=230, height={"step": 30})
    return theme.faceted(panel, rows, "dataset", "Solution styles", 3, datasets_in_order(rows, datasets), _STYLES)


_STYLE_COUNTS = (
    "Questions by the number of different styles among their samples. A bar that is all light has one style left: that"
    " is collapse; the base model's bar is what there was to keep. Styles that the nucleus of the evaluation"
    " (sampling.evaluate.top_p) cuts off are not seen. Averaged over training seeds, at the last step."
    " Drawn from tables/style_counts.parquet."
)


def draw_style_counts(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Stacked bars, a panel per dataset."""
    if table.is_empty():
        raise ValueError("figure style_counts: the table has no rows; name style prefixes in evaluate.styles")
    rows = theme.mean_over_seeds(table, "styles", "share").sort("dataset", "styles", maintain_order=True)
    base = alt.Chart(rows.drop("method")).encode(y=theme.policy_axis(rows))
    # With one style only, the scheme alone would take the middle of its colours for it.
    numbers = list(range(1, max(2, *rows["styles"]) + 1))
    colour = alt.Color("styles:O", scale=alt.Scale(scheme="blues", domain=numbers), legend=alt.Legend(title="styles"))
    tooltip = [theme.POLICY_TOOLTIP, alt.Tooltip("styles:Q", title="styles"), theme.SHARE_TOOLTIP]
    bar = theme.share_bars(base, "share of questions", color=colour, order="styles:Q", tooltip=tooltip)
    panel = alt.layer(bar).properties(width=230, height={"step": 30})
    return theme.faceted(
        panel, rows, "dataset", "Styles per question", 3, datasets_in_order(rows, datasets), _STYLE_COUNTS
    )


FIGURES = {
    "styles": theme.Figure("styles", _STYLES, draw_styles),
    "style_counts": theme.Figure("style_counts", _STYLE_COUNTS, draw_style_counts),
}
