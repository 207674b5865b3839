"""Keep and explore rates: solved questions of the base that a policy keeps, and questions that it adds."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import at_published_k, datasets_in_order, last_steps

TABLE = "keep_explore"
CAPTION = (
    "Keep: of the questions that the base model solves with k samples, the share that a policy solves as well. Explore:"
    " the share of the others. k is 8, or the largest below it. The base against itself, with another draw of k"
    " samples, shows what chance alone gives. Bars are bootstrap intervals over questions; one point for each training"
    " seed; a rate of fewer than 30 expected questions has no bar. Drawn from"
    " tables/keep_explore.parquet, which has every k."
)
_RATES = ("keep", "explore")


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Points with intervals, a panel per dataset and rate."""
    if table.is_empty():
        raise ValueError("figure keep_explore: the table has no rows, so no policy was compared with the base")
    named = theme.with_policy(at_published_k(last_steps(table)))
    rows = pl.concat(_rate(named, rate) for rate in _RATES).drop_nulls("value")
    # The base has no training seed: it is drawn in the middle of the others.
    trained = rows.filter(pl.col("seed") > 0)["seed"].unique().sort()
    middle = trained[len(trained) // 2] if len(trained) else 0
    rows = rows.with_columns(lane=pl.when(pl.col("seed") > 0).then("seed").otherwise(pl.lit(middle)))
    panels = [f"{dataset} · {rate}" for dataset in datasets_in_order(rows, datasets) for rate in _RATES]
    base = alt.Chart(rows.drop("method")).encode(
        y=theme.policy_axis(rows),
        yOffset=alt.YOffset("lane:O", scale=alt.Scale(paddingOuter=0.6)),
        color=theme.policy_colour(named).legend(None),
    )
    axis, scale = alt.Axis(format="%", tickCount=4, labelOverlap="greedy"), alt.Scale(zero=False)
    low, value = (alt.X(f"{name}:Q", title="share of questions", axis=axis, scale=scale) for name in ("low", "value"))
    tip = [
        theme.POLICY_TOOLTIP,
        theme.SEED_TOOLTIP,
        alt.Tooltip("panel:N", title="rate"),
        alt.Tooltip("value:Q", title="share", format=".1%"),
        *theme.interval_tooltips(),
        alt.Tooltip("questions:Q", title="questions"),
    ]
    layers = theme.interval_layers(base, base.encode(x=value), low, tip, size=80)
    panel = alt.layer(*layers).properties(width=290, height=max(26 * rows["policy"].n_unique(), 80))
    chart = theme.faceted(panel, rows, "panel", "Keep and explore", 2, panels, CAPTION)
    return chart.resolve_scale(x="independent")


def _rate(named: pl.DataFrame, rate: str) -> pl.DataFrame:
    of = pl.col("kept") + pl.col("lost") if rate == "keep" else pl.col("gained") + pl.col("neither")
    numbers = {"value": rate, "low": f"{rate}_low", "high": f"{rate}_high"}
    # A rate of few questions has no interval; a scale of nulls alone would be a warning in the browser.
    rounded = {name: pl.coalesce(column, rate).round(6) for name, column in numbers.items()}
    panel = pl.col("dataset") + f" · {rate}"
    return named.select("method", "policy", "seed", "dataset", panel=panel, **rounded, questions=of.round(1))
