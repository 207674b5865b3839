"""Tables of text: for the page, as Markdown, and as CSV and LaTeX files."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
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
    return [any(map(_has_letters, column)) for column in zip(*rows, strict=True)]


def _has_letters(cell: Cell) -> bool:
    return any(map(str.isalpha, "".join(cell)))


def write_texts(stem: Path, table: Table) -> None:
    """Write a table as `stem`.csv and `stem`.tex (with the rules of the package booktabs); both hold the same cells."""
    rows = _flat(table)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(stem.with_suffix(".csv"), text.getvalue())
    write_text(stem.with_suffix(".tex"), latex(rows, f"{table.title}. {table.caption}"))


def markdown_table(table: Table) -> str:
    """The table in Markdown, without title and caption, padded to be readable in a terminal."""
    head, *body = [list(map(markdown, row)) for row in _flat(table)]
    sides = ["left" if words else "right" for words in [True, *of_words(table.rows)[1:]]]
    return tabulate(body, head, tablefmt="pipe", disable_numparse=True, colalign=sides) + "\n"


def markdown(text: str) -> str:
    """`text` in one line, with the special characters of Markdown escaped."""
    return re.sub(r"([\\|`*_<>#])", r"\\\1", text).replace("\n", " ")


def _flat(table: Table) -> list[list[str]]:
    """Heads and rows, each cell as one text."""
    rows = [[cell if isinstance(cell, str) else " ".join(filter(None, cell)) for cell in row] for row in table.rows]
    return [list(table.heads), *rows]


_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "±": r"$\pm$",
        "\n": " ",
    }
)


def latex(rows: Sequence[Sequence[str]], caption: str) -> str:
    """Heads and rows as a LaTeX table; text is escaped."""
    # Not by tabulate, which leaves `|` and `"` as they are: LaTeX prints other characters for them.
    head, *body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    start = [r"\begin{table}", rf"\caption{{{caption.translate(_LATEX)}}}", rf"\begin{{tabular}}{{{columns}}}"]
    end = [r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*start, r"\toprule", head, r"\midrule", *body, r"\bottomrule", *end])
