"""The tables of a comparison, and the text for a terminal."""

import textwrap

from tabulate import tabulate

from dphrl.diagnose.comparison import Comparison
from dphrl.evaluation.names import BASE
from dphrl.report.sentences import KINDS
from dphrl.report.text_tables import Table
from dphrl.text import change, count, interval, percent, points, visible

# Characters of a line in a terminal, and of a name or a question in a cell.
_WIDTH, _CELL = 100, 30


def answers(comparison: Comparison) -> Table:
    """Samples and shares of each file."""
    rows = []
    for row in comparison.tables["answers"].iter_rows(named=True):
        number = f"{row['fewest']}" if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        shares = (row[name] for name in ("right", "truncated", "empty", "repeated"))
        cells = ("-" if share is None else percent(share) for share in shares)
        rows.append([row["method"], f"{row['questions']:,}", f"{row['samples']:,}", number, *cells])
    caption = (
        "Per cent of the samples. Truncated: stopped at the length limit (-: the file does not say). Empty: no text, or"
        " no answer in verdicts of a run. Repeated: the text of an earlier sample of the question."
    )
    heads = ["model", "questions", "samples", "per question", "right", "truncated", "empty", "repeated"]
    return Table("The files", caption, heads, rows)


def coverage(comparison: Comparison) -> Table:
    """pass@k of each model, and the k at which it falls below the base's."""
    ks = comparison.tables["passk"]["k"].unique().sort().to_list()
    crossings = {(row["method"], row["seed"]): row for row in comparison.tables["crossing"].iter_rows(named=True)}
    # Models on equal questions share the row of the base.
    rows: dict[tuple[str, ...], None] = {}
    for model in comparison.models.values():
        for policy in model.study.policies:
            possible = policy.up_to_n(ks)
            values = dict(zip(possible, policy.pass_at(possible).mean(axis=0).tolist(), strict=True))
            name, number = policy.key.method, policy.key.seed
            cells = ("-" if k not in values else percent(values[k]) for k in ks)
            crossing = crossings.get((name, number))
            # Without an upper end the curves may not cross.
            below = "{k} [{low}, {high}]".format(**crossing) if crossing and crossing["high"] is not None else "-"
            rows[f"{name} ({number})" if number else name, *cells, below] = None
    caption = (
        "Per cent of the questions that at least one of k samples solves. Below: the smallest k at which a model is"
        " below the base, with its 95 % interval, where the curves cross for sure."
    )
    return Table("pass@k", caption, ["model", *(f"k = {k}" for k in ks), "below the base"], list(rows))


def kept(comparison: Comparison) -> Table:
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
    return Table("Kept and lost", caption, ["model", "k", "kept", "lost", "lost by chance", "gained", "neither"], rows)


def by_base(comparison: Comparison) -> Table:
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
    return Table("Where a loss lies", caption, heads, rows)


def varied(comparison: Comparison) -> Table:
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
    return Table("Variety among right answers", caption, heads, rows)


def text(comparison: Comparison, every: bool = False) -> str:
    """The diagnoses, then the tables and notes. Control characters are visible symbols.

    Args:
        every: variety by each kind of classes too.
    """
    parts = ["\n".join(visible(line, "") for line in model.lines) for model in comparison.models.values()]
    for table in (answers, coverage, kept, by_base, *([varied] if every else [])):
        title, caption, heads, cells = table(comparison)
        if cells:
            rows = [[cell if len(cell) <= _CELL else f"{cell[: _CELL - 3]}..." for cell in row] for row in cells]
            sides = ["left", *["right"] * (len(heads) - 1)]
            shown = tabulate(rows, heads, tablefmt="simple", disable_numparse=True, colalign=sides)
            parts.append(f"{title}\n{shown}\n{textwrap.fill(caption, _WIDTH)}")
    wrap = textwrap.TextWrapper(_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    further = (sentence for model in comparison.models.values() for sentence in model.further)
    notes = (wrap.fill(f"- {visible(note, '')}") for note in (*further, *comparison.notes))
    return "\n\n".join([*parts, "\n".join(["Notes", *notes])])
