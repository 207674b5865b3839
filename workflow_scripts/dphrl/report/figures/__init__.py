"""The figures, one module each, found by name: the digest of one figure's code does not involve the others.

A figure's module has `TABLE` (the table that it draws), `CAPTION` (what it shows, and from which file) and
`draw(table, datasets) -> altair chart`. One with `PUBLISHED = True` takes published values as third argument. A new
module here is a new figure; no other code changes.
"""

import importlib
import json
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import polars as pl
import vl_convert


def figures() -> list[str]:
    """Names of all figures, alphabetical."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__))


def module(name: str) -> str:
    """Dotted name of the module of figure `name`, for its code digest.

    Raises:
        KeyError: there is no such figure.
    """
    if name not in figures():
        raise KeyError(f"no figure {name!r}; there are {', '.join(figures())}")
    return f"{__name__}.{name}"


def table(name: str) -> str:
    """Name of the table that figure `name` draws."""
    return _load(name).TABLE


def caption(name: str) -> str:
    """Caption of figure `name`, with the file it is drawn from."""
    return _load(name).CAPTION


def draws_published(name: str) -> bool:
    """Whether figure `name` can show published values."""
    return getattr(_load(name), "PUBLISHED", False)


def draw(name: str, table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Figure `name` of the rows of its table, as an altair chart.

    Args:
        datasets: the order of the datasets; any other follows alphabetically.
        published: of `published_points`, for a figure that draws them; points are drawn for the methods, datasets and
            metrics of the table. None: no published points.

    Raises:
        ValueError: the table has no row that the figure can show.
    """
    return _load(name).draw(table, datasets, *([published] if draws_published(name) else []))


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


def _load(name: str) -> ModuleType:
    return importlib.import_module(module(name))
