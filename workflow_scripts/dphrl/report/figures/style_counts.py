"""How many solution styles a question still has."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order

TABLE = "style_counts"
CAPTION = (
    "Questions by the number of different styles among their samples. A bar that is all light has one style left: that"
    " is collapse; the base model's bar is what there was to keep. Styles that the nucleus of the evaluation"
    " (sampling.evaluate.top_p) cuts off are not seen. Averaged over training seeds, at the last step."
    " Drawn from tables/style_counts.parquet."
)


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
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
    return theme.faceted(panel, rows, "dataset", "Styles per question", 3, datasets_in_order(rows, datasets), CAPTION)
