"""What all figures share: colours and shapes, tooltips, layers, published points, and the chart theme."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.names import in_order, label

# Okabe and Ito's palette, distinguishable with the common colour vision deficiencies; grey is the reference.
_COLOURS = {
    "base": "#5f6672",
    "base_second_draw": "#5f6672",
    "grpo": "#d55e00",
    "dapo": "#e69f00",
    "rkl": "#cc79a7",
    "rkl_k2": "#aa4499",
    "rkl_reward_k1": "#882255",
    "exp_only": "#8c6d1f",
    "alpha": "#56b4e9",
    "dph_f": "#0072b2",
    "dph_js": "#009e73",
    "js_definition": "#117733",
}
_FURTHER = ("#44aa99", "#999933", "#332288", "#88ccee", "#661100", "#6699cc", "#ddcc77", "#aa4466")
# Paul Tol's bright scheme; the style "other" is grey and always last.
_STYLES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_OTHER, _OTHER_COLOUR = "other", "#bbbbbb"
_PUBLISHED = "published (arXiv 2509.07430)"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

POLICY_TOOLTIP = alt.Tooltip("policy:N", title="policy")
SEED_TOOLTIP = alt.Tooltip("seed:Q", title="seed")
TRAINING_TOOLTIPS = [POLICY_TOOLTIP, SEED_TOOLTIP, alt.Tooltip("step:Q", title="step")]


def with_policy(table: pl.DataFrame) -> pl.DataFrame:
    """`table` sorted by method in reading order, with the column `policy`, the label of its method."""
    order = in_order(table["method"])
    rank = pl.col("method").replace_strict(order, list(range(len(order))), return_dtype=pl.Int32)
    keys = [name for name in ("seed", "step", "dataset", "metric", "style", "k") if name in table.columns]
    named = pl.col("method").replace_strict(order, [label(name) for name in order], return_dtype=pl.String)
    return table.sort(rank, *keys).with_columns(policy=named)


def policy_colour(table: pl.DataFrame) -> alt.Color:
    """Colour of each label in `policy`: the same in every figure."""
    methods = in_order(table["method"])
    further = [name for name in methods if name not in _COLOURS]
    colours = [
        _COLOURS[name] if name in _COLOURS else _FURTHER[further.index(name) % len(_FURTHER)] for name in methods
    ]
    return _colour("policy", [label(name) for name in methods], colours)


def policy_shape(table: pl.DataFrame) -> alt.Shape:
    """Point shape of each label in `policy`, so that colour is not the only difference."""
    return _shape("policy", [label(name) for name in in_order(table["method"])])


def family_colour(table: pl.DataFrame) -> alt.Color:
    """Colour of each family of methods, alphabetical."""
    names = sorted(set(table["family"]))
    return _colour("family", names, [_STYLES[index % len(_STYLES)] for index in range(len(names))])


def family_shape(table: pl.DataFrame) -> alt.Shape:
    """Point shape of each family of methods, so that colour is not the only difference."""
    return _shape("family", sorted(set(table["family"])))


def _colour(field: str, names: list[str], colours: list[str]) -> alt.Color:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(title=None))


def _shape(field: str, names: list[str]) -> alt.Shape:
    shapes = [_SHAPES[index % len(_SHAPES)] for index in range(len(names))]
    return alt.Shape(f"{field}:N", scale=alt.Scale(domain=names, range=shapes), legend=alt.Legend(title=None))


def style_colour(names: Iterable[str]) -> alt.Scale:
    """Colour of each solution style, alphabetical with "other" last."""
    known = sorted(set(names) - {_OTHER})
    colours = [_STYLES[index % len(_STYLES)] for index in range(len(known))]
    return alt.Scale(domain=[*known, _OTHER], range=[*colours, _OTHER_COLOUR])


def interval_tooltips(number: str = ".1%") -> list[alt.Tooltip]:
    """The ends of an interval, in the format `number`."""
    return [alt.Tooltip("low:Q", title="from", format=number), alt.Tooltip("high:Q", title="to", format=number)]


def highlight() -> tuple[alt.Parameter, Any]:
    """A click on a legend entry selects its policy: the selection, and the opacity of a mark under it."""
    selection = alt.selection_point(name="highlight", fields=["policy"], bind="legend")
    return selection, alt.when(selection).then(alt.value(1.0)).otherwise(alt.value(0.12))


def interval_layers(base: alt.Chart, points: alt.Chart, low: Any, tooltip: Any, size: int = 60) -> list[alt.Chart]:
    """Intervals as rules, with points over them.

    Args:
        base: what rules and points share.
        points: `base` with the position (and shape) of a point.
        low: the channel of the lower ends, x or y; the upper ends are in the column "high".
        tooltip, size: of the points.
    """
    upper = alt.X2("high:Q") if isinstance(low, alt.X) else alt.Y2("high:Q")
    rule = base.mark_rule(strokeWidth=2).encode(low, upper)
    return [rule, points.mark_point(filled=True, size=size, opacity=1).encode(tooltip=tooltip)]


def with_published(
    rows: pl.DataFrame, published: pl.DataFrame | None, keys: Sequence[str], value: str = "value"
) -> pl.DataFrame:
    """`rows`, followed by the published values that have a counterpart in them.

    Args:
        rows: with `keys`, `value`, low and high.
        published: `keys` and `value`; None: there are none.

    Returns:
        The columns of `rows`; if any published figure was found, also `source` str, which is null in `rows`. A
        published row has null for interval and seed, and takes all other columns from its counterpart.
    """
    if published is None:
        return rows
    unpublished = [name for name in ("seed", "low", "high") if name in rows.columns]
    counterparts = rows.unique(keys, keep="first", maintain_order=True).drop(value, *unpublished)
    found = counterparts.join(published.select(*keys, pl.col(value).round(6)), on=keys, maintain_order="left")
    if found.is_empty():
        return rows
    return pl.concat([rows, found.with_columns(source=pl.lit(_PUBLISHED))], how="diagonal_relaxed")


def panel(
    layers: Sequence[alt.Chart], points: alt.Chart, rows: pl.DataFrame, tooltip: Sequence[alt.Tooltip]
) -> alt.LayerChart | alt.FacetChart:
    """`layers` over each other; where `with_published` found published figures, with hollow points for them.

    Args:
        points: a chart of `rows` with the position and colour of a point.
        tooltip: of the published points.
    """
    if "source" not in rows.columns:
        return alt.layer(*layers)
    legend = alt.Legend(title=None, orient="bottom", symbolFillColor="transparent", symbolStrokeColor="#20242c")
    # The dash pattern is a solid line: it exists for its legend, which explains the hollow points. Points of this run
    # get size 0 instead of being filtered out: a panel without published figures would have no data for its axis.
    hollow = points.mark_point(filled=False, strokeWidth=1.6, opacity=1).encode(
        size=alt.when("datum.source").then(alt.value(120)).otherwise(alt.value(0)),
        strokeDash=alt.StrokeDash("source:N", scale=alt.Scale(domain=[_PUBLISHED], range=[[1, 0]]), legend=legend),
        tooltip=[alt.Tooltip("source:N"), *tooltip],
    )
    return alt.layer(*(layer.transform_filter("!datum.source") for layer in layers), hollow)


def with_published_note(caption: str, rows: pl.DataFrame) -> str:
    """The caption of a figure of `rows`, with a note on published points if it has some."""
    return f"{caption} Hollow points: {_PUBLISHED}." if "source" in rows.columns else caption


def wrapped(
    panel: alt.LayerChart | alt.FacetChart, by: str, title: str, columns: int, order: Sequence[str]
) -> alt.FacetChart:
    """`panel` once for each value of column `by`, in the given order, at most `columns` in a row.

    The page lowers `columns` and the width of the panel on a narrow screen.
    """
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelAnchor="start", labelPadding=6)
    facets = alt.Facet(f"{by}:N", header=header, sort=list(order))
    return panel.facet(facet=facets, columns=min(columns, len(order)), title=title)


def themed(chart: Any, description: str) -> Any:
    """`chart` with the common theme; a screen reader reads `description`."""
    ink, muted, line = "#20242c", "#565d69", "#e3e6ea"
    return chart.properties(description=description, background="white", padding=8).configure(
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
