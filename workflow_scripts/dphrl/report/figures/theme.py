"""The common parts of all figures: colours and shapes, tooltips, layers, and the chart theme."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.headline import last_steps
from dphrl.report.methods import colours, in_order, label

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

POLICY_TOOLTIP = alt.Tooltip("policy:N", title="policy")
SEED_TOOLTIP = alt.Tooltip("seed:Q", title="seed")
TRAINING_TOOLTIPS = [POLICY_TOOLTIP, SEED_TOOLTIP, alt.Tooltip("step:Q", title="step")]


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        table: name of the table that it draws.
        caption: its subject, and the file of the table.
        draw: function of the table and the order of the datasets; `contents.drawn` says where there is a row to show.
    """

    table: str
    caption: str
    draw: Callable[[pl.DataFrame, Sequence[str]], Any]


def with_policy(table: pl.DataFrame) -> pl.DataFrame:
    """`table` sorted by method in reading order, with the column `policy`, the label of its method."""
    order = in_order(table["method"])
    keys = [name for name in ("seed", "step", "dataset", "metric", "style", "k") if name in table.columns]
    policy = pl.col("method").replace_strict(order, [label(name) for name in order], return_dtype=pl.String)
    return table.sort(pl.col("method").cast(pl.Enum(order)), *keys).with_columns(policy=policy)


def mean_over_seeds(table: pl.DataFrame, part: str, *values: str) -> pl.DataFrame:
    """Means of `values` at the last steps, by dataset, method and `part`, with the column `policy`."""
    groups = with_policy(last_steps(table)).group_by("method", "policy", "dataset", part, maintain_order=True)
    return groups.agg(pl.col(values).mean().round(6)).sort("dataset", maintain_order=True)


def policy_axis(table: pl.DataFrame) -> alt.Y:
    """A row for each label in `policy`."""
    return alt.Y("policy:N", sort=_labels(table), title=None)


def policy_colour(table: pl.DataFrame) -> alt.Color:
    """Colour of each label in `policy`: the same in every figure."""
    scale = alt.Scale(domain=_labels(table), range=list(colours(table["method"]).values()))
    return alt.Color("policy:N", scale=scale, legend=alt.Legend(title=None))


def policy_shape(table: pl.DataFrame) -> alt.Shape:
    """Point shape of each label in `policy`, so that colour is not the only difference."""
    names = _labels(table)
    scale = alt.Scale(domain=names, range=list(islice(cycle(_SHAPES), len(names))))
    return alt.Shape("policy:N", scale=scale, legend=alt.Legend(title=None))


def _labels(table: pl.DataFrame) -> list[str]:
    return [label(name) for name in in_order(table["method"])]


def interval_tooltips(number: str = ".1%") -> list[alt.Tooltip]:
    """The ends of an interval, in the format `number`."""
    return [alt.Tooltip("low:Q", title="from", format=number), alt.Tooltip("high:Q", title="to", format=number)]


def policy_lines(rows: pl.DataFrame, unused: str, x: alt.X, y: alt.Y) -> alt.Chart:
    """A chart without marks of a line for each policy, from `rows` without the column `unused`."""
    return alt.Chart(rows.drop(unused)).encode(x=x, y=y, color=policy_colour(rows))


def interval_layers(base: alt.Chart, points: alt.Chart, low: Any, tooltip: Any, size: int = 60) -> list[alt.Chart]:
    """Intervals as rules, with points over them.

    Args:
        base: the chart of the encodings that rules and points share.
        points: `base` with the position (and shape) of a point.
        low: the channel of the lower ends, x or y; the upper ends are in the column "high".
        tooltip, size: of the points.
    """
    upper = alt.X2("high:Q") if isinstance(low, alt.X) else alt.Y2("high:Q")
    rule = base.mark_rule(strokeWidth=2).encode(low, upper)
    return [rule, points.mark_point(filled=True, size=size, opacity=1).encode(tooltip=tooltip)]


def faceted(
    panel: Any, rows: pl.DataFrame, by: str, title: str, columns: int, order: Sequence[str], caption: str
) -> Any:
    """The whole figure: `panel` for each value of column `by` of `rows`, with the common theme.

    The page lowers `columns` and the width of the panel on a narrow screen.

    Args:
        columns: how many panels are in a row, at most.
        order: the values of `by` in their order; values that do not occur in `rows` get no panel.
        caption: the text for a screen reader.
    """
    shown = [value for value in order if value in set(rows[by])]
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelAnchor="start", labelPadding=6)
    facets = alt.Facet(f"{by}:N", header=header, sort=shown)
    chart = panel.facet(facet=facets, columns=min(columns, len(shown)), title=title)
    ink, muted, line = "#20242c", "#565d69", "#e3e6ea"
    return chart.properties(description=caption, background="white", padding=8).configure(
        font="Helvetica, Arial, sans-serif",
        axis=alt.AxisConfig(
            labelColor=muted,
            titleColor=muted,
            titleFontWeight="normal",
            labelFontSize=11,
            titleFontSize=12,
            gridColor=line,
            domainColor="#aab0b9",
            tickColor="#aab0b9",
            labelLimit=140,
        ),
        header=alt.HeaderConfig(labelColor=ink),
        legend=alt.LegendConfig(
            orient="top",
            title=None,
            labelColor=ink,
            labelFontSize=12,
            symbolSize=90,
            columns=8,
            columnPadding=16,
            symbolOpacity=1,
            labelLimit=180,
        ),
        title=alt.TitleConfig(color=ink, fontSize=16, anchor="start", offset=12),
        view=alt.ViewConfig(stroke=None),
    )
