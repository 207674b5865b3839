"""Pass@k in the course of training."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.names import datasets_in_order

TABLE = "passk"
CAPTION = (
    "Pass@8 (the largest k up to 8 that was estimated) of the policies saved during training; every line"
    " starts at the base model. A line that falls while rewards rise shows collapse under way, and when it began. One"
    " line for each training seed; the interval of a point, over questions, shows under the pointer. Drawn from"
    " tables/passk.parquet."
)
_LARGEST_K = 8


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """Lines over training steps, a panel per dataset."""
    trained = table.filter(pl.col("step") > 0)
    if trained.is_empty():
        raise ValueError("figure steps: the table has no trained policy")
    known = sorted(set(table["k"]))
    k = max((one for one in known if one <= _LARGEST_K), default=known[0])
    start = table.filter(pl.col("method") == "base").drop("method", "seed")
    lines = trained.select("method", "seed", "dataset").unique()
    rows = pl.concat([trained, lines.join(start, on="dataset").select(trained.columns)]).filter(k=k)
    rows = theme.with_policy(rows).with_columns(pl.col("value", "low", "high").round(6))
    base, selected = theme.policy_lines(
        rows.drop("k"),
        "method",
        alt.X("step:Q", title="training step", axis=alt.Axis(grid=False, tickMinStep=1, tickCount=6)),
        alt.Y("value:Q", title=f"pass@{k}", scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(format="%")),
    )
    value = alt.Tooltip("value:Q", title=f"pass@{k}", format=".1%")
    point = base.mark_point(filled=True, size=55).encode(
        shape=theme.policy_shape(rows), tooltip=[*theme.TRAINING_TOOLTIPS, value, *theme.interval_tooltips()]
    )
    line = base.mark_line(strokeWidth=2).encode(detail="seed:N")
    panel = alt.layer(line, point.add_params(selected)).properties(width=260, height=220)
    order = datasets_in_order(rows, datasets)
    return theme.faceted(panel, rows, "dataset", f"Pass@{k} over training", 3, order, CAPTION)
