"""Tables of text: for the page, as Markdown, and as CSV and LaTeX files."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from dphrl.store.files import write_text

Cell = str | tuple[str, str]
"""A text, or a text with a smaller one for its interval or detail."""


class Table(NamedTuple):
    """A table of text; the first cell of a row is its head."""

    title: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def of_words(rows: Iterable[Sequence[Cell]]) -> list[bool]:
    """Whether each column holds words: it is set to the left, a column of numbers to the right."""
    return [any(letter.isalpha() for cell in column for letter in "".join(cell)) for column in zip(*rows, strict=True)]


def write_texts(stem: Path, table: Table) -> None:
    """Write a table as `stem`.csv and `stem`.tex (a tabular of the package booktabs); both hold the same cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_flat(table))
    write_text(stem.with_suffix(".csv"), text.getvalue())
    write_text(stem.with_suffix(".tex"), _drawn(table, "latex_booktabs", str))


def markdown_table(table: Table) -> str:
    """The table in Markdown, without title and caption, padded to be readable in a terminal."""
    return _drawn(table, "pipe", markdown)


def _drawn(table: Table, form: str, cell: Callable[[str], str]) -> str:
    """The table in a format of tabulate, which escapes for LaTeX but not for Markdown."""
    head, *body = [list(map(cell, row)) for row in _flat(table)]
    sides = ["left" if words else "right" for words in [True, *of_words(table.rows)[1:]]]
    return tabulate(body, head, tablefmt=form, disable_numparse=True, colalign=sides) + "\n"


def markdown(text: str) -> str:
    """`text` in one line, with the special characters of Markdown escaped."""
    return re.sub(r"([\\|`*_<>#])", r"\\\1", text).replace("\n", " ")


def _flat(table: Table) -> list[list[str]]:
    """Heads and rows, each cell as one text."""
    rows = [[cell if isinstance(cell, str) else " ".join(filter(None, cell)) for cell in row] for row in table.rows]
    return [list(table.heads), *rows]
