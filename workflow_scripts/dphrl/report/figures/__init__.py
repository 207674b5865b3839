"""The figures, in one module for each section of the page.

Each module defines `FIGURES`, its figures by name. A new figure needs an entry there and its name in `SECTIONS`.
"""

import importlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import vl_convert

if TYPE_CHECKING:
    from dphrl.report.figures.theme import Figure

SECTIONS: Final = {
    "solved": ("passk", "gap", "keep_explore"),
    "diversity": ("styles",),
    "course": ("training", "steps", "paths"),
}
"""Figures by module, in the order of the page. The names are known without the modules, which are slow to import."""
_MODULES: Final = {name: module for module, names in SECTIONS.items() for name in names}


def figures() -> list[str]:
    """Names of all figures, alphabetical."""
    return sorted(_MODULES)


def module(name: str) -> str:
    """Dotted name of the module of a figure, for the digest of its code."""
    return f"{__name__}.{_MODULES[name]}"


def figure(name: str) -> "Figure":
    """A figure by its name."""
    return importlib.import_module(module(name)).FIGURES[name]


def draw(name: str, table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """A figure of the rows of its table, as an altair chart.

    Args:
        datasets: the order of the datasets; any other follows alphabetically.
    """
    return figure(name).draw(table, datasets)


def to_json(chart: Any) -> str:
    """Vega-Lite specification of a chart: the same chart gives the same bytes."""
    return json.dumps(_specification(chart), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_svg(chart: Any) -> str:
    """Drawing of a chart, made without a browser or network."""
    return vl_convert.vegalite_to_svg(_specification(chart))


def _specification(chart: Any) -> dict[str, Any]:
    # Slow to import, and the names of figures do not need it.
    import altair as alt

    # A figure contains all its rows, and trainings have thousands.
    with alt.data_transformers.disable_max_rows():
        specification: dict[str, Any] = chart.to_dict()
    return specification
