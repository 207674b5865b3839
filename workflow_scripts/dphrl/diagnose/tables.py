"""The tables of a diagnosis as text: title, caption and frame; and the text for a terminal."""

from collections.abc import Iterator, Sequence

import polars as pl
from tabulate import tabulate

from dphrl.diagnose.diagnosis import Diagnosis
from dphrl.evaluation.against_base import BINS
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.evaluation.verdict import KINDS
from dphrl.pages.numbers import change, interval, percent, points
from dphrl.pages.visible import visible

Shown = tuple[str, str, pl.DataFrame]
_ITSELF = "base against itself (chance)"
_PARTS = {"all": "all", "right": "right", "wrong": "wrong", "narrowing": "narrowing", "rest": "rest"}


def answers(found: Diagnosis) -> Shown:
    """What the files hold."""
    rows = []
    for row in found.tables["answers"].iter_rows(named=True):
        number = f"{row['fewest']}" if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        shares = (row[name] for name in ("right", "truncated", "empty", "repeated"))
        cells = ("-" if share is None else percent(share) for share in shares)
        rows.append([row["method"], f"{row['questions']:,}", f"{row['samples']:,}", number, *cells])
    heads = ["model", "questions", "samples", "per question", "right", "truncated", "empty", "repeated"]
    caption = (
        "Shares of all samples in per cent. Truncated: stopped at the length limit, where the file says so. Repeated:"
        " the same text as an earlier sample of the question. Empty: no text, or no answer in it for verdicts of this"
        " workflow."
    )
    return "The files", caption, _frame(heads, rows)


def coverage(found: Diagnosis) -> Shown:
    """pass@k of each model, and the k at which it falls below the base's."""
    table = found.tables["passk"]
    ks = table["k"].unique().sort().to_list()
    crossings = {row["method"]: row for row in found.tables["crossing"].iter_rows(named=True)}
    rows = []
    for name in found.joined.rows:
        cells = {row["k"]: row for row in table.filter(method=name).iter_rows(named=True)}
        values = [f"{percent(cells[k]['value'])} {interval((cells[k]['low'], cells[k]['high']), percent)}" for k in ks]
        rows.append([name, *values, _crossing(crossings.get(name))])
    caption = (
        "Share of questions solved by at least one of k samples, in per cent, with the 95 % interval over questions;"
        " and the smallest k at which the curve is below the base's, with its interval."
    )
    return "Coverage: pass@k", caption, _frame(["model", *(f"pass@{k}" for k in ks), "falls below the base at k"], rows)


def _crossing(row: dict[str, int | None] | None) -> str:
    if row is None:
        return "-"
    k, low, high = (row[name] or f"> {row['up_to']}" for name in ("k", "low", "high"))
    return f"{k} [{low}, {high}]"


def kept(found: Diagnosis) -> Shown:
    """What each model keeps of what the base solves, next to the base against itself."""
    rows = []
    order = [BASE_ITSELF, *found.models]
    table = found.tables["keep_explore"].sort("k", pl.col("method").cast(pl.Enum(order)))
    for row in table.iter_rows(named=True):
        name = _ITSELF if row["method"] == BASE_ITSELF else row["method"]
        numbers = (f"{row[part]:.1f}" for part in ("kept", "lost", "gained", "neither"))
        rates = (
            "-"
            if row[rate] is None
            else f"{percent(row[rate])} {interval((row[f'{rate}_low'], row[f'{rate}_high']), percent)}"
            for rate in ("keep", "explore", "ndr")
        )
        rows.append([f"{row['k']}", name, *numbers, *rates])
    caption = (
        "Expected numbers of questions that k samples of each model solve: both (kept), the base only (lost), the tuned"
        " model only (gained), neither. Keep: kept of what the base solves; explore: gained of the rest; net discovery:"
        " gained of what the tuned model solves; in per cent with 95 % intervals. What the base against itself, with"
        " another draw, loses and gains is chance; it needs 2 k samples."
    )
    heads = ["k", "model", "kept", "lost", "gained", "neither", "keep", "explore", "net discovery (NDR)"]
    return "What was kept, lost and gained", caption, _frame(heads, rows)


def varied(found: Diagnosis) -> Shown:
    """Different classes among right answers, by kind."""
    rows = []
    for name, model in found.models.items():
        for one in model.varieties:
            low, high = one.difference.wide
            difference = f"{change(one.difference.value)} {interval((low, high), change)}"
            questions = f"{one.difference.questions:,}"
            rows.append(
                [name, KINDS[one.kind], f"{one.m}", f"{one.base:.2f}", f"{one.tuned:.2f}", difference, questions]
            )
    caption = (
        "Expected number of different ones among m right answers, over the questions of which both models have m:"
        " accuracy does not bias it."
    )
    heads = ["model", "different", "right answers (m)", "base", "tuned", "difference", "questions"]
    return "Variety among right answers", caption, _frame(heads, rows)


def split(found: Diagnosis) -> Shown:
    """What a loss of different answers consists of."""
    rows = []
    table = found.tables["diversity_split"]
    for (name, kind), part in table.group_by("method", "classes", maintain_order=True):
        cells = {row["part"]: row for row in part.iter_rows(named=True)}
        texts = (
            f"{change(one['value'])} {interval((one['low'], one['high']), change)}"
            for one in (cells[part] for part in _PARTS)
        )
        rows.append([name, KINDS[str(kind)], *texts])
    caption = (
        "How many different ones a question has less than under the base (positive: fewer). All = right + wrong; right"
        " = narrowing (at an equal number of right answers) + rest (what the number of right answers changes)."
    )
    return "What lost diversity consists of", caption, _frame(["model", "different", *_PARTS], rows)


def moved(found: Diagnosis) -> Iterator[Shown]:
    """For each model, the expected numbers of questions by solve rate under the base and under it."""
    table = found.tables["transitions"]
    chance = _cells(table.filter(method=BASE_ITSELF))
    for name in found.models:
        cells = _cells(table.filter(method=name))
        rows = [
            [_rate(one), *(f"{cells[one, other]:.1f} ({chance[one, other]:.1f})" for other in BINS)]
            for one in BINS
            if cells and chance
        ]
        caption = (
            "Expected numbers of questions by solve rate, in per cent, under the base (rows) and the tuned model"
            " (columns). A rate is that of half of a question's samples, so that the base can be compared with itself:"
            " in brackets, what moves by chance."
        )
        yield f"Solve rates: {name}", caption, _frame(["base, %", *map(_rate, BINS)], rows)


def _cells(table: pl.DataFrame) -> dict[tuple[int, int], float]:
    return {(one, other): number for one, other, number in table.select(pl.nth(-3, -2, -1)).iter_rows()}


def _rate(end: int) -> str:
    return {0: "0", 99: "below 100", 100: "100"}.get(end, f"up to {end}")


def portfolio(found: Diagnosis, only: int | None = None) -> Shown:
    """Coverage of a budget of k samples, divided between base and tuned model; of one k only, if it is given."""
    rows = []
    table = found.tables["portfolio"]
    for row in (table if only is None else table.filter(k=only)).iter_rows(named=True):
        one, other = row["from_base"], row["from_base_other_half"]
        draws = f"{one}" if one == other else f"{min(one, other)} or {max(one, other)}"
        values = (percent(row[name]) for name in ("base_alone", "tuned_alone", "best"))
        gain = f"{points(row['gain'])} {interval((row['low'], row['high']))}"
        rows.append([row["method"], f"{row['k']}", *values, draws, gain])
    caption = (
        "pass@k in per cent with all k samples from the base, all from the tuned model, and with the best split between"
        " them. The split that is best on one half of the questions is used on the other, both ways round; there it can"
        " be worse than one model alone. Two numbers: one of each half. Gain: over all k from the tuned model, in"
        " points."
    )
    heads = ["model", "k", "base alone", "tuned alone", "best split", "drawn from the base", "gain over tuned alone"]
    return "Portfolio", caption, _frame(heads, rows)


def levels(found: Diagnosis) -> Shown:
    """pass@K by level."""
    rows = []
    for row in found.tables["levels"].iter_rows(named=True):
        difference = (
            f"{points(row['difference'])} {interval((row['low'], row['high']))}" if row["low"] is not None else "-"
        )
        values = (percent(row["base"]), percent(row["tuned"]))
        rows.append([row["level"], row["method"], f"{row['questions']:,}", *values, difference])
    caption = f"pass@{found.k} in per cent; the difference in points with its 95 % interval."
    return "By level", caption, _frame(["level", "model", "questions", BASE, "tuned", "difference"], rows)


def _frame(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String), orient="row")


# What the heads of a table mean, in a line each; the captions of the page say it in full.
_LEGENDS = (
    "Per cent of the samples. Truncated: stopped at the length limit (-: the file does not say). Repeated: the text of"
    " an earlier sample of the question. Empty: no text, or no answer in it for verdicts of this workflow.",
    "Per cent of questions that at least one of k samples solves [95 % interval]. Last: the smallest k at which a model"
    " is below the base (> 8: at none up to 8).",
    "Questions solved by both (kept), the base only (lost), the model only (gained). Per cent: kept of what the base"
    " solves (keep), gained of the rest (explore), gained of what the model solves (net discovery). The base against"
    " itself shows what another draw changes; it needs 2 k samples, so its k may be smaller.",
    "Expected number of different ones among m right answers to a question: means over the questions of which both"
    " models have m.",
    "pass@k in per cent with all k samples drawn from one model, or split between both. The split that is best on one"
    " half of the questions is used on the other, where it can be worse than one model alone (two numbers: one"
    " of each half). Gain in points.",
)


def text(found: Diagnosis) -> str:
    """The tables at K, the notes, and last the verdicts. Control characters are visible symbols."""
    shown = [answers(found), coverage(found), _at_k(kept(found), found), varied(found), portfolio(found, found.k)]
    parts = [_table(one, legend) for one, legend in zip(shown, _LEGENDS, strict=True) if one[2].height]
    parts += ["\n".join(["Notes", *(f"- {visible(note, '')}" for note in found.notes)])] if found.notes else []
    verdicts = ("\n".join(visible(line, "") for line in model.sentences) for model in found.models.values())
    return "\n\n".join([*parts, *verdicts])


def _at_k(shown: Shown, found: Diagnosis) -> Shown:
    """The rows of K, and of the largest k at which the base compares with itself, if that is smaller."""
    table = found.tables["keep_explore"]
    itself = table.filter(method=BASE_ITSELF)["k"].to_list()
    ks = {str(found.k), *(str(max(itself)) for _ in itself[:1])}
    title, caption, frame = shown
    return title, caption, frame.filter(frame["k"].is_in(ks))


def _table(shown: Shown, legend: str) -> str:
    title, _, frame = shown
    rows = [[visible(str(cell), "") for cell in row] for row in frame.iter_rows()]
    sides = ["left", *["right"] * (len(frame.columns) - 1)]
    table = tabulate(rows, frame.columns, tablefmt="simple", disable_numparse=True, colalign=sides)
    return f"{title}\n{table}\n{legend}"
