"""Tables as Markdown and LaTeX text; special characters are escaped."""

import re
from collections.abc import Sequence

from tabulate import tabulate

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


def markdown_table(rows: Sequence[Sequence[object]], align: str = "") -> str:
    """Header and rows as a Markdown table, padded to be readable in a terminal.

    Args:
        align: "l" or "r" for each column; by default the first is left-aligned, all others are right-aligned.
    """
    head, *body = [[markdown(str(cell)) for cell in row] for row in rows]
    sides = ["left" if side == "l" else "right" for side in align or "l" + "r" * (len(head) - 1)]
    return tabulate(body, head, tablefmt="pipe", disable_numparse=True, colalign=sides) + "\n"


def latex_table(rows: Sequence[Sequence[object]], caption: str) -> str:
    """Header and rows as a LaTeX table with the rules of the package booktabs; text is escaped."""
    # Not by tabulate, which leaves `|` and `"` as they are: LaTeX prints other characters for them.
    head, *body = [" & ".join(str(cell).translate(_LATEX) for cell in row) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    start = [r"\begin{table}", rf"\caption{{{caption.translate(_LATEX)}}}", rf"\begin{{tabular}}{{{columns}}}"]
    end = [r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*start, r"\toprule", head, r"\midrule", *body, r"\bottomrule", *end])


def markdown(text: str) -> str:
    """`text` in one line, with the special characters of Markdown escaped."""
    return re.sub(r"([\\|`*_<>#])", r"\\\1", text).replace("\n", " ")
