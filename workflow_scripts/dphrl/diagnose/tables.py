"""The tables of a comparison as text: title, caption and frame; and the text for a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from tabulate import tabulate

from dphrl.diagnose.comparison import Comparison
from dphrl.evaluation.against_base import BINS, transitions
from dphrl.evaluation.diagnosis import KINDS
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.text import change, count, interval, percent, points, visible

Shown = tuple[str, str, pl.DataFrame]
_ITSELF = "base against itself (chance)"
_RATES = {"keep": ("kept", "lost"), "explore": ("gained", "neither"), "ndr": ("kept", "gained")}
_PARTS = {"all": "all", "right": "right", "wrong": "wrong", "narrowing": "narrowing", "rest": "rest"}


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
        "Shares of all samples in per cent. Truncated: stopped at the length limit, where the file says so. Repeated:"
        " the same text as an earlier sample of the question. Empty: no text, or no answer in it for verdicts of this"
        " workflow."
    )
    return "The files", caption, _frame(heads, rows)


def coverage(comparison: Comparison) -> Shown:
    """pass@k of each model, the k at which it falls below the base's, and pass@K of guesses."""
    table = comparison.tables["passk"]
    ks = table["k"].unique().sort().to_list()
    crossings = {(row["method"], row["seed"]): row for row in comparison.tables["crossing"].iter_rows(named=True)}
    rows = []
    for (name, seed), part in table.group_by("method", "seed", maintain_order=True):
        for cells in _by_sets(part, "k"):
            values = [
                f"{percent(cell['value'])} [{percent(cell['low'])}, {percent(cell['high'])}]" if cell else "-"
                for cell in (cells.get(k) for k in ks)
            ]
            ends = _crossing(crossings.get((str(name), seed))), _guesses(comparison, str(name))
            rows.append([_shown(name, seed), *values, *ends])
    caption = (
        "Share of questions solved by at least one of k samples, in per cent, with the 95 % interval over questions;"
        " the smallest k at which the curve is below the base's, with its interval; and pass@K with the right answer of"
        " another question in place of its own, of the model and of the base: what guesses reach."
    )
    heads = ["model", *(f"pass@{k}" for k in ks), "falls below the base at k", "by guesses (base)"]
    return "Coverage: pass@k", caption, _frame(heads, rows)


def _shown(name: object, seed: object) -> str:
    """A model; of several trainings one."""
    return f"{name} ({seed})" if seed else str(name)


def _by_sets(part: pl.DataFrame, column: str) -> Iterator[dict[Any, dict[str, Any]]]:
    """The rows by a column; several sets of the base if models count different questions."""
    number = pl.int_range(pl.len()).over(column)
    for _, rows in part.with_columns(set=number).group_by("set", maintain_order=True):
        yield {row[column]: row for row in rows.iter_rows(named=True)}


def _guesses(comparison: Comparison, name: str) -> str:
    guesses = comparison.models[name].diagnosis.guesses if name in comparison.models else None
    return "-" if guesses is None else f"{percent(guesses[1])} ({percent(guesses[0])})"


def _crossing(row: dict[str, Any] | None) -> str:
    """The crossing where it is certain that the curves cross: its upper end is a number."""
    return "-" if row is None or row["high"] is None else f"{row['k']} [{row['low']}, {row['high']}]"


def shares(comparison: Comparison) -> Shown:
    """Cover@tau, pass^k and maj@k."""
    table = comparison.tables["cover"]
    metrics = table["metric"].unique(maintain_order=True).to_list()
    rows = []
    for (name, seed), part in table.group_by("method", "seed", maintain_order=True):
        for cells in _by_sets(part, "metric"):
            values = (percent(cells[metric]["value"]) if metric in cells else "-" for metric in metrics)
            rows.append([_shown(name, seed), *values])
    caption = (
        "Per cent of questions. Cover@tau: at least the share tau of 2 K samples are right (of all, where there are"
        " fewer). pass^K: all of K samples are right. maj@K: the most frequent answer of K samples is right."
    )
    return "Shares of right samples", caption, _frame(["model", *metrics], rows)


def by_base(comparison: Comparison) -> Shown:
    """pass@K by the base's number of right samples."""
    rows = []
    for row in comparison.tables["by_base"].iter_rows(named=True):
        values = (percent(row["base"]), percent(row["tuned"]), points(row["tuned"] - row["base"]))
        rows.append([row["method"], row["right"], f"{row['questions']:,}", *values])
    caption = (
        "pass@K in per cent over the questions of which the base has so many right samples: where a loss lies. A"
        " question with few of them may have been lucky, so an equal model solves some of these less often too."
    )
    heads = ["model", "right samples of the base", "questions", BASE, "tuned", "difference"]
    return "Where a loss lies", caption, _frame(heads, rows)


def kept(comparison: Comparison) -> Shown:
    """Questions kept, lost and gained by each model, next to the base against itself."""
    rows = []
    order = [BASE_ITSELF, *comparison.models]
    table = comparison.tables["keep_explore"].sort("k", pl.col("method").cast(pl.Enum(order)))
    for row in table.iter_rows(named=True):
        name = _ITSELF if row["method"] == BASE_ITSELF else _shown(row["method"], row["seed"])
        numbers = (f"{row[part]:.1f}" for part in ("kept", "lost", "gained", "neither"))
        rates = (_rate_of(row, *names) for names in _RATES.items())
        rows.append([f"{row['k']}", name, *numbers, *rates])
    caption = (
        "Expected numbers of questions that k samples of each model solve: both (kept), the base only (lost), the tuned"
        " model only (gained), neither. Keep: kept of what the base solves; explore: gained of the rest; net discovery:"
        " gained of what the tuned model solves; in per cent of so many expected questions, with 95 %"
        " intervals where these are 30 or more. What the base against itself, with"
        " another draw, loses and gains is chance; it needs 2 k samples."
    )
    heads = ["k", "model", "kept", "lost", "gained", "neither", "keep", "explore", "net discovery (NDR)"]
    return "What was kept, lost and gained", caption, _frame(heads, rows)


def _rate_of(row: dict[str, Any], rate: str, parts: Sequence[str]) -> str:
    """A rate, its interval, and the expected number of questions below it."""
    if row[rate] is None:
        return "-"
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    ends = "" if low is None else f" {interval((low, high), percent)}"
    return f"{percent(row[rate])}{ends} of {sum(row[part] for part in parts):.1f}"


def varied(comparison: Comparison) -> Shown:
    """Different classes among right answers, by kind."""
    rows = []
    for name, model in comparison.models.items():
        for variety in model.varieties:
            difference = f"{change(variety.difference.value)} {interval(variety.difference.wide, change)}"
            questions = f"{variety.difference.questions:,}"
            counts = (count(variety.difference.base), count(variety.difference.tuned), difference)
            effective = ", ".join(map(count, variety.effective))
            rows.append([name, KINDS[variety.kind], f"{variety.m}", *counts, questions, effective])
    caption = (
        "Expected number of different ones among m right answers, over the questions of which both models have m:"
        " accuracy does not bias it. Effective number: exp of the entropy of all right answers, of both."
    )
    heads = ["model", "different", "right answers (m)", BASE, "tuned", "difference", "questions", "effective number"]
    return "Variety among right answers", caption, _frame(heads, rows)


def split(comparison: Comparison) -> Shown:
    """The parts of a loss of different answers."""
    rows = []
    table = comparison.tables["diversity_split"]
    for (name, seed, kind), part in table.group_by("method", "seed", "classes", maintain_order=True):
        cells = {row["part"]: row for row in part.iter_rows(named=True)}
        differences = (cells[name_of_part] for name_of_part in _PARTS)
        texts = (f"{change(cell['value'])} {interval((cell['low'], cell['high']), change)}" for cell in differences)
        rows.append([_shown(name, seed), KINDS[str(kind)], *texts])
    caption = (
        "How many different ones a question has less than under the base (positive: fewer). All = right + wrong; right"
        " = narrowing (at an equal number of right answers) + rest (what the number of right answers changes)."
    )
    return "What lost diversity consists of", caption, _frame(["model", "different", *_PARTS], rows)


def moved(comparison: Comparison) -> Iterator[Shown]:
    """For each training of a model, the expected numbers of questions by solve rate under the base and under it."""
    caption = (
        "Expected numbers of questions by solve rate, in per cent, under the base (rows) and the tuned model"
        " (columns). A rate is that of half of a question's samples, so that the base can be compared with itself:"
        " in brackets, what moves by chance."
    )
    for model in comparison.models.values():
        parts = transitions(model.study).partition_by("method", "seed", as_dict=True)
        cells = {key: _cells(part) for key, part in parts.items()}
        chance = cells.pop((BASE_ITSELF, 0), {})
        for key, of_training in cells.items():
            rows = [
                [_rate(before), *(f"{of_training[before, after]:.1f} ({chance[before, after]:.1f})" for after in BINS)]
                for before in BINS
            ]
            yield f"Solve rates: {_shown(*key)}", caption, _frame(["base, %", *map(_rate, BINS)], rows)


def _cells(table: pl.DataFrame) -> dict[tuple[int, int], float]:
    return {(before, after): number for before, after, number in table.select(pl.nth(-3, -2, -1)).iter_rows()}


def _rate(end: int) -> str:
    return {0: "0", 99: "below 100", 100: "100"}.get(end, f"up to {end}")


def levels(comparison: Comparison) -> Shown:
    """pass@K by level."""
    rows = []
    for row in comparison.tables["levels"].iter_rows(named=True):
        difference = (
            f"{points(row['difference'])} {interval((row['low'], row['high']))}" if row["low"] is not None else "-"
        )
        values = (percent(row["base"]), percent(row["tuned"]))
        rows.append([row["level"], row["method"], f"{row['questions']:,}", *values, difference])
    caption = "pass@K in per cent; the difference in points with its 95 % interval."
    return "By level", caption, _frame(["level", "model", "questions", BASE, "tuned", "difference"], rows)


def _frame(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String), orient="row")


# A short explanation of the heads of each table; the captions of the page explain them in full.
_LEGENDS = (
    "Per cent of the samples. Truncated: stopped at the length limit (-: the file does not say). Repeated: the text of"
    " an earlier sample of the question. Empty: no text, or no answer in it for verdicts of this workflow.",
    "Per cent of questions that at least one of k samples solves [95 % interval]. The smallest k at which a model is"
    " below the base, where the curves cross for sure. pass@K with the right answer of another question.",
    "Per cent of questions. Cover@tau: that share of 2 K samples is right. pass^K: all K are. maj@K: the most frequent"
    " answer is.",
    "Questions solved by both (kept), the base only (lost), the model only (gained). Per cent: kept of what the base"
    " solves (keep), gained of the rest (explore), gained of what the model solves (net discovery). The base against"
    " itself shows what another draw changes.",
    "Per cent of these questions solved within K samples. A question with few right samples may have been lucky.",
    "Expected number of different ones among m right answers to a question: means over the questions of which both"
    " models have m. Effective number (base, tuned): exp of the entropy of all right answers.",
)


def text(comparison: Comparison) -> str:
    """The tables at K, the notes, and last the diagnoses. Control characters are visible symbols."""
    ks = frozenset(model.diagnosis.k for model in comparison.models.values())
    parts = [
        answers(comparison),
        coverage(comparison),
        shares(comparison),
        _at_k(kept(comparison), ks),
        by_base(comparison),
        varied(comparison),
    ]
    shown = [_table(table, legend) for table, legend in zip(parts, _LEGENDS, strict=True)]
    shown += (
        ["\n".join(["Notes", *(f"- {visible(note, '')}" for note in comparison.notes)])] if comparison.notes else []
    )
    diagnoses = ("\n".join(visible(line, "") for line in model.sentences) for model in comparison.models.values())
    return "\n\n".join([*filter(None, shown), *diagnoses])


def _at_k(shown: Shown, ks: frozenset[int]) -> Shown:
    title, caption, frame = shown
    return title, caption, frame.filter(pl.col("k").is_in([str(k) for k in ks]))


def _table(shown: Shown, legend: str) -> str:
    title, _, frame = shown
    if frame.is_empty():
        return ""
    rows = [[visible(str(cell), "") for cell in row] for row in frame.iter_rows()]
    sides = ["left", *["right"] * (len(frame.columns) - 1)]
    table = tabulate(rows, frame.columns, tablefmt="simple", disable_numparse=True, colalign=sides)
    return f"{title}\n{table}\n{legend}"
