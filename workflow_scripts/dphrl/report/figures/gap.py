"""How far the policies are from the base on each test set."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.look import finished, policy_colour, policy_shape, with_policy, wrapped
from dphrl.report.names import datasets_in_order

TABLE = "comparisons"
CAPTION = (
    "Difference to the base model on each test set, in the order of the configuration: the sets near to the training"
    " set first. Above 0 a policy answers more questions than the base. A gain in the mean beside a loss in pass@k,"
    " above all on distant sets, is collapse. Bars are paired bootstrap intervals over questions, after the last step,"
    " averaged over training seeds. Drawn from tables/comparisons.parquet."
)
_METRIC = r"^(mean|pass)@\d+$"


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Points with intervals, a panel per metric.

    Args:
        table: dataset, metric, method, against, kind, difference, low, high, seeds.
        datasets: the order of the datasets.
    """
    rows = table.filter(pl.col("metric").str.contains(_METRIC), against="base", kind="prompts")
    if rows.is_empty():
        raise ValueError("figure gap: the table has no difference to base; name base in evaluate.against to draw it")
    rows = with_policy(rows).with_columns(pl.col("difference", "low", "high").round(6))
    order = datasets_in_order(rows, datasets)
    metrics = sorted(set(rows["metric"]), key=lambda name: (name.split("@")[0], int(name.split("@")[1])))
    names = rows["policy"].unique(maintain_order=True).to_list()
    base = alt.Chart(rows.drop("method", "kind", "against", "p", "p_holm", strict=False)).encode(
        x=alt.X("dataset:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset("policy:N", sort=names, scale=alt.Scale(paddingOuter=0.5)),
        color=alt.Color("policy:N", scale=policy_colour(rows), legend=alt.Legend(title=None)),
    )
    line = alt.when("datum.value == 0").then(alt.value("#5f6672")).otherwise(alt.value("#e3e6ea"))
    axis, scale = alt.Axis(format="+%", tickCount=5, gridColor=line), alt.Scale(zero=True)
    low = alt.Y("low:Q", title="difference to base (points)", axis=axis, scale=scale)
    rule = base.mark_rule(strokeWidth=2).encode(y=low, y2="high:Q")
    point = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=alt.Y("difference:Q", title="difference to base (points)", axis=axis, scale=scale),
        shape=alt.Shape("policy:N", scale=policy_shape(rows), legend=alt.Legend(title=None)),
        tooltip=[
            alt.Tooltip("policy:N", title="policy"),
            alt.Tooltip("dataset:N", title="dataset"),
            alt.Tooltip("metric:N", title="metric"),
            alt.Tooltip("difference:Q", title="difference", format="+.1%"),
            alt.Tooltip("low:Q", title="from", format="+.1%"),
            alt.Tooltip("high:Q", title="to", format="+.1%"),
            alt.Tooltip("seeds:Q", title="seeds"),
        ],
    )
    panel = alt.layer(rule, point).properties(width=max(90 * len(order), 200), height=220)
    return finished(wrapped(panel, "metric", "Gap to the base model", 3, metrics), CAPTION)
