"""The figures, one module each, found by name: the digest of one figure's code does not involve the others.

A figure's module has `TABLE` (the table that it draws), `CAPTION` (what to see, and from which file) and
`draw(table, datasets) -> altair chart`. One with `PUBLISHED = True` takes published figures as third argument. A new
module here is a new figure; nothing else has to know it.
"""

import importlib
import json
import pkgutil
from collections.abc import Sequence
from typing import Any, Protocol, cast

import polars as pl
import vl_convert

__all__ = ["caption", "draw", "draws_published", "figures", "module", "table", "to_json", "to_svg"]


class _Figure(Protocol):
    TABLE: str
    CAPTION: str

    def draw(self, table: pl.DataFrame, datasets: Sequence[str], *published: pl.DataFrame | None) -> Any: ...


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
    """What to see in figure `name`, and from which file it was drawn."""
    return _load(name).CAPTION


def draws_published(name: str) -> bool:
    """Whether figure `name` has a place for published figures."""
    return getattr(_load(name), "PUBLISHED", False)


def draw(name: str, table: pl.DataFrame, datasets: Sequence[str] = (), published: pl.DataFrame | None = None) -> Any:
    """Figure `name` of the rows of its table, as an altair chart.

    Args:
        datasets: the order of the datasets; any other follows alphabetically.
        published: of `published_points`, for a figure that draws them; those of a method, dataset and metric of the
            table stand beside them. None: the table alone.

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
    # Slow to import, and who asks for names of figures needs none of it.
    import altair as alt

    # Its rows travel in a figure, however many: trainings have thousands.
    with alt.data_transformers.disable_max_rows():
        specification: dict[str, Any] = chart.to_dict()
    return specification


def _load(name: str) -> _Figure:
    return cast(_Figure, importlib.import_module(module(name)))
