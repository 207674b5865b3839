"""The tables of a comparison as text: title, caption and frame; and the text for a terminal."""

import textwrap
from collections.abc import Sequence
from typing import Any

import polars as pl
from tabulate import tabulate

from dphrl.diagnose.comparison import Comparison
from dphrl.evaluation.diagnosis import KINDS
from dphrl.evaluation.names import BASE
from dphrl.text import change, count, interval, percent, points, visible

Shown = tuple[str, str, pl.DataFrame]
# Characters of a line in a terminal, and of a name or a question in a cell.
_WIDTH, _CELL = 100, 30


def answers(comparison: Comparison) -> Shown:
    """Samples and shares of each file."""
    rows = []
    for row in comparison.tables["answers"].iter_rows(named=True):
        number = f"{row['fewest']}" if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        shares = (row[name] for name in ("right", "truncated", "empty", "repeated"))
        cells = ("-" if share is None else percent(share) for share in shares)
        rows.append([row["method"], f"{row['questions']:,}", f"{row['samples']:,}", number, *cells])
    heads = ["model", "questions", "samples", "per question", "right", "truncated", "empty", "repeated"]
    caption = (
        "Per cent of the samples. Truncated: stopped at the length limit (-: the file does not say). Empty: no text, or"
        " no answer in it for verdicts of this workflow. Repeated: the text of an earlier sample of the question."
    )
    return "The files", caption, _frame(heads, rows)


def coverage(comparison: Comparison) -> Shown:
    """pass@k of each model, and the k at which it falls below the base's."""
    ks = comparison.tables["passk"]["k"].unique().sort().to_list()
    crossings = {(row["method"], row["seed"]): row for row in comparison.tables["crossing"].iter_rows(named=True)}
    # Models on equal questions share the row of the base.
    rows: dict[tuple[str, ...], None] = {}
    for model in comparison.models.values():
        for policy in model.study.policies:
            possible = policy.up_to_n(ks)
            values = dict(zip(possible, policy.pass_at(possible).mean(axis=0).tolist(), strict=True))
            key = policy.key.method, policy.key.seed
            cells = ("-" if k not in values else percent(values[k]) for k in ks)
            rows[_training(*key), *cells, _crossing(crossings.get(key))] = None
    caption = (
        "Per cent of the questions that at least one of k samples solves. Below: the smallest k at which a model is"
        " below the base, with its 95 % interval, where the curves cross for sure."
    )
    return "pass@k", caption, _frame(["model", *(f"k = {k}" for k in ks), "below the base"], list(rows))


def _training(name: str, number: int) -> str:
    """A model; of several trainings one."""
    return f"{name} ({number})" if number else name


def _crossing(row: dict[str, Any] | None) -> str:
    """The crossing where it is certain that the curves cross: its upper end is a number."""
    return "-" if row is None or row["high"] is None else f"{row['k']} [{row['low']}, {row['high']}]"


def kept(comparison: Comparison) -> Shown:
    """Questions kept, lost and gained by each model, also of its hotter files."""
    rows = []
    for name, model in comparison.models.items():
        hotter = model.diagnosis.hotter
        exchanges = {name: model.diagnosis.exchange} | ({f"{name}, hotter": hotter.exchange} if hotter else {})
        for shown, exchange in exchanges.items():
            numbers = (exchange.kept, exchange.lost, exchange.chance, exchange.gained, exchange.neither)
            cells = ("-" if number is None else f"{number:.1f}" for number in numbers)
            rows.append([shown, f"{model.diagnosis.k}", *cells])
    caption = (
        "Expected numbers of questions that k samples solve: of both models (kept), of the base only (lost), of the"
        " tuned model only (gained). By chance: lost by another draw of the base, which takes 2 k samples."
    )
    heads = ["model", "k", "kept", "lost", "lost by chance", "gained", "neither"]
    return "Kept and lost", caption, _frame(heads, rows)


def by_base(comparison: Comparison) -> Shown:
    """pass@K by the base's number of right samples."""
    rows = []
    for row in comparison.tables["by_base"].iter_rows(named=True):
        values = (percent(row["base"]), percent(row["tuned"]), points(row["tuned"] - row["base"]))
        rows.append([row["method"], row["right"], f"{row['questions']:,}", *values])
    caption = (
        "pass@K in per cent, at the K of the diagnosis, over the questions of which the base has so many right samples."
        " A question with few of them may have been lucky, so an equal model solves some of these less often too."
    )
    heads = ["model", "right samples of the base", "questions", BASE, "tuned", "difference"]
    return "Where a loss lies", caption, _frame(heads, rows)


def varied(comparison: Comparison) -> Shown:
    """Different classes among right answers, by kind."""
    rows = []
    for name, model in comparison.models.items():
        for variety in model.varieties:
            difference = variety.difference
            change_with_ends = f"{change(difference.value)} {interval(difference.wide, change)}"
            counts = (count(difference.base), count(difference.tuned), change_with_ends)
            rows.append([name, KINDS[variety.kind], f"{variety.m}", *counts, f"{difference.questions:,}"])
    caption = (
        "Expected number of different ones among m right answers to a question: means over the questions of which both"
        " models have m, so that accuracy does not matter."
    )
    heads = ["model", "different", "m", BASE, "tuned", "difference", "questions"]
    return "Variety among right answers", caption, _frame(heads, rows)


def _frame(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String), orient="row")


def text(comparison: Comparison, every: bool = False) -> str:
    """The diagnoses, then the tables and notes. Control characters are visible symbols.

    Args:
        every: variety by each kind of classes too.
    """
    lines = ["\n".join(visible(line, "") for line in model.lines) for model in comparison.models.values()]
    tables = [answers, coverage, kept, by_base, *([varied] if every else [])]
    further = (sentence for model in comparison.models.values() for sentence in model.further)
    notes = "\n".join(["Notes", *(_wrapped(f"- {visible(note, '')}") for note in (*further, *comparison.notes))])
    return "\n\n".join([*lines, *filter(None, map(_table, (table(comparison) for table in tables))), notes])


def _wrapped(line: str) -> str:
    return textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _table(shown: Shown) -> str:
    title, caption, frame = shown
    if frame.is_empty():
        return ""
    rows = [[_cut(cell) for cell in row] for row in frame.iter_rows()]
    sides = ["left", *["right"] * (len(frame.columns) - 1)]
    table = tabulate(rows, frame.columns, tablefmt="simple", disable_numparse=True, colalign=sides)
    return f"{title}\n{table}\n{textwrap.fill(caption, _WIDTH)}"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _CELL else f"{cell[: _CELL - 3]}..."
