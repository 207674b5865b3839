"""Which questions are solved: pass@k, the gap to the base, keep and explore."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.evaluation.names import BASE_ITSELF
from dphrl.report.figures import theme
from dphrl.report.headline import at_published_k, datasets_in_order, last_steps

_PASSK = (
    "Share of questions solved by at least one of k samples. A policy that wins at k = 1 and loses at large k repeats"
    " one answer where the base had several. Thick lines are means over trainings, thin lines single trainings; bands"
    " are intervals over questions. Drawn from tables/passk.parquet."
)
# The seed of rows that are means over trainings, which have seeds from 0.
_MEAN = -1


def draw_passk(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """Curves with bands, a panel per dataset."""
    means = theme.mean_over_seeds(table, "k", "value", "low", "high").with_columns(seed=pl.lit(_MEAN, pl.Int32))
    single = theme.with_policy(last_steps(table)).filter(pl.col("seed").n_unique().over("method") > 1)
    rows = pl.concat([means, single.select(means.columns).with_columns(pl.col("value").round(6))])
    k = alt.Axis(values=rows["k"].unique().sort().to_list(), format="d", grid=False)
    percent = alt.Axis(format="%", tickCount=5)
    base = theme.policy_lines(
        rows,
        "method",
        alt.X("k:Q", title="k (samples per question)", scale=alt.Scale(type="log", base=2), axis=k),
        alt.Y("value:Q", title="pass@k", scale=alt.Scale(zero=False, nice=True), axis=percent),
    )
    of_mean = base.transform_filter(f"datum.seed === {_MEAN}")
    thin = base.transform_filter(f"datum.seed !== {_MEAN}").encode(detail="seed:N")
    band = of_mean.mark_area(opacity=0.09).encode(y=alt.Y("low:Q", title="pass@k"), y2="high:Q")
    value = [alt.Tooltip("k:Q", title="k"), alt.Tooltip("value:Q", title="pass@k", format=".1%")]
    points = base.encode(shape=theme.policy_shape(rows))
    point = points.transform_filter(f"datum.seed === {_MEAN}").mark_point(filled=True, size=55, opacity=1)
    point = point.encode(tooltip=[theme.POLICY_TOOLTIP, *value, *theme.interval_tooltips()])
    # A layer without rows would make Vega warn.
    single_lines = [] if single.is_empty() else [thin.mark_line(strokeWidth=0.7, opacity=0.45)]
    layers = [band, *single_lines, of_mean.mark_line(strokeWidth=2), point]
    panel = alt.layer(*layers).properties(width=260, height=220)
    return theme.faceted(panel, rows, "dataset", "Pass@k", 3, datasets_in_order(rows, datasets), _PASSK)


_GAP = (
    "Difference to the base model on each test set, in the order of the configuration: the sets nearest to the training"
    " set first. Above 0 a policy answers more questions than the base. A gain in the mean with a loss in pass@k, above"
    " all on distant sets, is collapse. A set has the two largest k that its samples allow. Bars are intervals over"
    " training seeds and questions (over questions alone with one seed), after the last step. Drawn from"
    " tables/comparisons.parquet."
)
_METRIC = r"^(mean|pass)@\d+$"
_SHOWN = ("dataset", "metric", "policy", "panel", "difference", "low", "high", "seeds")
_LARGEST_RANK = 2
_TITLE = "difference to base (points)"


def draw_gap(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """Points with intervals, a panel per metric: the mean, then pass@k by the rank of k in its dataset."""
    rows = table.filter(pl.col("metric").str.contains(_METRIC), against="base", level="")
    rows = theme.with_policy(rows).with_columns(pl.col("difference", "low", "high").round(6))
    rows, panels = _panels(rows)
    order = datasets_in_order(rows, datasets)
    names = rows["policy"].unique(maintain_order=True).to_list()
    base = alt.Chart(rows.select(_SHOWN)).encode(
        x=alt.X("dataset:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset("policy:N", sort=names, scale=alt.Scale(paddingOuter=0.5)),
        color=theme.policy_colour(rows),
    )
    line = alt.when("datum.value == 0").then(alt.value("#5f6672")).otherwise(alt.value("#e3e6ea"))
    in_points = "datum.value == 0 ? '0' : format(100 * datum.value, '+.3~g')"
    axis, scale = alt.Axis(labelExpr=in_points, tickCount=5, gridColor=line), alt.Scale(zero=True)
    low, value = (alt.Y(f"{name}:Q", title=_TITLE, axis=axis, scale=scale) for name in ("low", "difference"))
    points = base.encode(y=value, shape=theme.policy_shape(rows))
    tip = [
        theme.POLICY_TOOLTIP,
        alt.Tooltip("dataset:N", title="dataset"),
        alt.Tooltip("metric:N", title="metric"),
        alt.Tooltip("difference:Q", title="difference", format="+.1%"),
    ]
    seeds = alt.Tooltip("seeds:Q", title="seeds")
    layers = theme.interval_layers(base, points, low, [*tip, *theme.interval_tooltips("+.1%"), seeds])
    drawn = alt.layer(*layers).properties(width=max(90 * len(order), 200), height=220)
    return theme.faceted(drawn, rows, "panel", "Gap to the base model", 3, panels, _GAP)


def _panels(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """`rows` with the column `panel`, all metrics of one rank; the panels."""
    metric, family = pl.col("metric"), pl.col("metric").str.split("@").list.first()
    ranked = rows.with_columns(family=family, k=metric.str.extract(r"@(\d+)$").cast(pl.Int32)).with_columns(
        rank=pl.col("k").rank("dense", descending=True).over("dataset", "family")
    )
    ranked = ranked.filter(pl.col("rank") <= _LARGEST_RANK)
    panel = metric.sort_by("k").unique(maintain_order=True).str.join(", ").over("family", "rank")
    panelled = ranked.with_columns(panel=panel)
    panels = panelled.unique(["family", "rank"]).sort("family", "rank", descending=[False, True])["panel"]
    return panelled, panels.to_list()


_KEEP_EXPLORE = (
    "Keep: of the questions that the base model solves with k samples, the share that a policy solves as well."
    " Explore: the share of the other questions. k is 8, or less where questions have fewer samples. Where they have"
    " 2k, the base against itself, with another draw, shows what chance alone gives. Bars are intervals over"
    " questions; one point for each training seed. Drawn from"
    " tables/keep_explore.parquet, which has every k."
)
_RATES = ("keep", "explore")


def draw_keep_explore(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """Points with intervals, a panel per dataset and rate."""
    named = theme.with_policy(at_published_k(last_steps(table)))
    rows = pl.concat(_rate(named, rate) for rate in _RATES).drop_nulls("value")
    # The base is drawn in the middle: it belongs to no training seed.
    of_training = pl.col("method") != BASE_ITSELF
    trained = rows.filter(of_training)["seed"].unique().sort()
    middle = trained[len(trained) // 2] if len(trained) else 0
    rows = rows.with_columns(lane=pl.when(of_training).then("seed").otherwise(pl.lit(middle)))
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
    chart = theme.faceted(panel, rows, "panel", "Keep and explore", 2, panels, _KEEP_EXPLORE)
    return chart.resolve_scale(x="independent")


def _rate(named: pl.DataFrame, rate: str) -> pl.DataFrame:
    of = pl.col("kept") + pl.col("lost") if rate == "keep" else pl.col("gained") + pl.col("neither")
    numbers = {"value": rate, "low": f"{rate}_low", "high": f"{rate}_high"}
    # A rate of few questions comes without interval. A scale of nulls alone would cause a warning in the browser.
    rounded = {name: pl.coalesce(column, rate).round(6) for name, column in numbers.items()}
    panel = pl.col("dataset") + f" · {rate}"
    return named.select("method", "policy", "seed", "dataset", panel=panel, **rounded, questions=of.round(1))


FIGURES = {
    "passk": theme.Figure("passk", _PASSK, draw_passk),
    "gap": theme.Figure("comparisons", _GAP, draw_gap),
    "keep_explore": theme.Figure("keep_explore", _KEEP_EXPLORE, draw_keep_explore),
}
