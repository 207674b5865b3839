"""What all figures have in common: colours of policies and styles, and the chart theme."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.names import in_order, label

# Okabe and Ito's palette, told apart with any of the common colour vision deficiencies; grey is the reference.
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


def with_policy(table: pl.DataFrame) -> pl.DataFrame:
    """`table` sorted by method in reading order, with the column `policy`, the label of its method."""
    order = in_order(table["method"])
    rank = pl.col("method").replace_strict(order, list(range(len(order))), return_dtype=pl.Int32)
    keys = [name for name in ("seed", "step", "dataset", "metric", "style", "k") if name in table.columns]
    named = pl.col("method").replace_strict(order, [label(name) for name in order], return_dtype=pl.String)
    return table.sort(rank, *keys).with_columns(policy=named)


def policy_colour(table: pl.DataFrame) -> alt.Scale:
    """Colour of each label in `policy`: the same in every figure."""
    methods = in_order(table["method"])
    further = [name for name in methods if name not in _COLOURS]
    colours = [
        _COLOURS[name] if name in _COLOURS else _FURTHER[further.index(name) % len(_FURTHER)] for name in methods
    ]
    return alt.Scale(domain=[label(name) for name in methods], range=colours)


def policy_shape(table: pl.DataFrame) -> alt.Scale:
    """Point shape of each label in `policy`, so that colour is not the only difference."""
    methods = in_order(table["method"])
    shapes = [_SHAPES[index % len(_SHAPES)] for index in range(len(methods))]
    return alt.Scale(domain=[label(name) for name in methods], range=shapes)


def family_colour(names: Iterable[str]) -> alt.Scale:
    """Colour of each family of methods, alphabetical."""
    told = sorted(set(names))
    return alt.Scale(domain=told, range=[_STYLES[index % len(_STYLES)] for index in range(len(told))])


def family_shape(names: Iterable[str]) -> alt.Scale:
    """Point shape of each family of methods, so that colour is not the only difference."""
    told = sorted(set(names))
    return alt.Scale(domain=told, range=[_SHAPES[index % len(_SHAPES)] for index in range(len(told))])


def style_colour(names: Iterable[str]) -> alt.Scale:
    """Colour of each solution style, alphabetical with "other" last."""
    told = sorted(set(names) - {_OTHER})
    colours = [_STYLES[index % len(_STYLES)] for index in range(len(told))]
    return alt.Scale(domain=[*told, _OTHER], range=[*colours, _OTHER_COLOUR])


def with_published(
    rows: pl.DataFrame, published: pl.DataFrame | None, keys: Sequence[str], value: str = "value"
) -> pl.DataFrame:
    """`rows`, and below them those published figures that `rows` has counterparts of.

    Args:
        rows: with `keys`, `value`, low and high.
        published: `keys` and `value`; None: there are none.

    Returns:
        The columns of `rows`; where something was found also `source` str, null in `rows`. What a published row does
        not tell (interval, seed) is null, the rest is that of its counterpart.
    """
    if published is None:
        return rows
    untold = [name for name in ("seed", "low", "high") if name in rows.columns]
    counterparts = rows.unique(keys, keep="first", maintain_order=True).drop(value, *untold)
    found = counterparts.join(published.select(*keys, pl.col(value).round(6)), on=keys, maintain_order="left")
    if found.is_empty():
        return rows
    return pl.concat([rows, found.with_columns(source=pl.lit(_PUBLISHED))], how="diagonal_relaxed")


def panel(ours: Sequence[alt.Chart], published: alt.Chart, rows: pl.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """The marks `ours` over each other; where `with_published` found something, hollow points `published` over them.

    Args:
        published: a chart of `rows` that says where a point of them stands, and how it is coloured.
    """
    if "source" not in rows.columns:
        return alt.layer(*ours)
    legend = alt.Legend(title=None, orient="bottom", symbolFillColor="transparent", symbolStrokeColor="#20242c")
    # The dash is a whole line: it is there for its legend, which tells what is hollow. Ours have no size there, but are
    # not left out: a panel without published figures would have nothing to lay its axis by.
    hollow = published.mark_point(filled=False, strokeWidth=1.6, opacity=1).encode(
        size=alt.when("datum.source").then(alt.value(120)).otherwise(alt.value(0)),
        strokeDash=alt.StrokeDash("source:N", scale=alt.Scale(domain=[_PUBLISHED], range=[[1, 0]]), legend=legend),
    )
    return alt.layer(*(mark.transform_filter("!datum.source") for mark in ours), hollow)


def told(caption: str, rows: pl.DataFrame) -> str:
    """The caption of a figure of `rows`, with a word on the published points where it has some."""
    return f"{caption} Hollow points: {_PUBLISHED}." if "source" in rows.columns else caption


def wrapped(
    panel: alt.LayerChart | alt.FacetChart, by: str, title: str, columns: int, order: Sequence[str]
) -> alt.FacetChart:
    """`panel` once for each value of column `by`, in reading order, at most `columns` beside each other.

    The page lowers `columns` and the width of the panel on a narrow screen.
    """
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelAnchor="start", labelPadding=6)
    facets = alt.Facet(f"{by}:N", header=header, sort=list(order))
    return panel.facet(facet=facets, columns=min(columns, len(order)), title=title)


def finished(chart: Any, description: str) -> Any:
    """`chart` with the common theme; `description` is what a screen reader says."""
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
