"""How far the policies are from the base on each test set."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order

TABLE = "comparisons"
PUBLISHED = True
CAPTION = (
    "Difference to the base model on each test set, in the order of the configuration: the sets nearest to the training"
    " set first. Above 0 a policy answers more questions than the base. A gain in the mean with a loss in pass@k, above"
    " all on distant sets, is collapse. A set has the two largest k that its samples allow. Bars are intervals over"
    " training seeds and questions (over questions alone with one seed), after the last step. Drawn from"
    " tables/comparisons.parquet."
)
_METRIC = r"^(mean|pass)@\d+$"
_OF_ERROR = ("error", "freedom", "of_seeds", "of_questions", "of_both")
_LEFT_OUT = ("p", "p_holm", *_OF_ERROR, "seeds_against", "questions", "clusters")
_LARGEST_K = 2
_TITLE = "difference to base (points)"


def draw(table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Points with intervals, a panel per metric: the mean, then pass@k by the rank of k among those of its dataset."""
    rows = table.filter(pl.col("metric").str.contains(_METRIC), against="base")
    if rows.is_empty():
        raise ValueError("figure gap: the table has no difference to base; name base in evaluate.against to draw it")
    rows = theme.with_policy(rows).with_columns(pl.col("difference", "low", "high").round(6))
    rows, panels = _panels(rows)
    order = datasets_in_order(rows, datasets)
    names = rows["policy"].unique(maintain_order=True).to_list()
    rows = theme.with_published(rows, _differences(published), ["method", "dataset", "published"], "difference")
    base = alt.Chart(rows.drop("method", "against", *_LEFT_OUT, "published", strict=False)).encode(
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
    drawn = theme.panel(layers, points, rows, tip).properties(width=max(90 * len(order), 200), height=220)
    return theme.faceted(drawn, rows, "panel", "Gap to the base model", 3, panels, CAPTION)


def _panels(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """`rows` with the columns `panel` (all metrics of one rank) and `published` (the published metric); the panels."""
    metric, family = pl.col("metric"), pl.col("metric").str.split("@").list.first()
    ranked = rows.with_columns(family=family, k=metric.str.extract(r"@(\d+)$").cast(pl.Int32)).with_columns(
        rank=pl.col("k").rank("dense", descending=True).over("dataset", "family")
    )
    ranked = ranked.filter(pl.col("rank") <= _LARGEST_K)
    panel = metric.sort_by("k").unique(maintain_order=True).str.join(", ").over("family", "rank")
    published = pl.when(family == "mean").then(family).otherwise("metric")
    panelled = ranked.with_columns(panel=panel, published=published)
    panels = panelled.unique(["family", "rank"]).sort("family", "rank", descending=[False, True])["panel"]
    return panelled.drop("family", "k", "rank"), panels.to_list()


def _differences(published: pl.DataFrame | None) -> pl.DataFrame | None:
    """The published values less those of the published base."""
    if published is None:
        return None
    keys = ["dataset", "metric"]
    base = published.filter(method="base").select(*keys, base="value")
    found = published.filter(pl.col("method") != "base").join(base, on=keys, maintain_order="left")
    return found.select("method", "dataset", published="metric", difference=pl.col("value") - pl.col("base"))
