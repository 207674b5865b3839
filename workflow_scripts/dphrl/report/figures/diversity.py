"""How many solution styles the samples show."""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.figures import theme
from dphrl.report.headline import datasets_in_order

_CAPTION = (
    "How the samples of each policy divide among solution styles, and how many styles the samples of one question"
    " show on average. One colour filling a bar is collapse; the base model's bar is what there was to keep. Averaged"
    " over training seeds, at the last step. Drawn from tables/styles.parquet."
)
# Paul Tol's bright scheme; the style "other" is grey and always last.
_BRIGHT = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_OTHER, _OTHER_COLOUR = "other", "#bbbbbb"


def draw_styles(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """One bar per policy, stacked by the share of each style, with the mean number of styles. A panel per dataset."""
    rows = theme.mean_over_seeds(table, "style", "share", "distinct_styles")
    styles = [*sorted(set(rows["style"]) - {_OTHER}), _OTHER]
    colours = [*islice(cycle(_BRIGHT), len(styles) - 1), _OTHER_COLOUR]
    rank = pl.col("style").replace_strict(styles, list(range(len(styles))), return_dtype=pl.Int32)
    first = pl.int_range(pl.len()).over("method", "dataset") == 0
    words = pl.col("distinct_styles").map_elements(lambda count: f"{count:.2f} styles", return_dtype=pl.String)
    rows = rows.with_columns(rank=rank, label=pl.when(first).then(words))
    base = alt.Chart().encode(y=theme.policy_axis(rows))
    axis, scale = alt.Axis(format="%", tickCount=4), alt.Scale(domain=[0, 1])
    bar = base.mark_bar(height={"band": 0.72}, stroke="white", strokeWidth=1).encode(
        x=alt.X("share:Q", title="share of samples", axis=axis, scale=scale),
        color=alt.Color(
            "style:N", scale=alt.Scale(domain=styles, range=colours), sort=styles, legend=alt.Legend(title=None)
        ),
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
    return theme.faceted(panel, rows, "dataset", "Solution styles", 3, datasets_in_order(rows, datasets), _CAPTION)


FIGURES = {"styles": theme.Figure("styles", _CAPTION, draw_styles)}
