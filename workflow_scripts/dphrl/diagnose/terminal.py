"""A diagnosis as text for a terminal."""

from collections.abc import Iterator

from tabulate import tabulate

from dphrl.diagnose.diagnosis import Diagnosis
from dphrl.diagnose.sentences import sentences
from dphrl.diagnose.shown import Shown, answers, coverage, kept, portfolio, varied
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.pages.visible import visible


def text(found: Diagnosis) -> str:
    """The tables at K, the notes, and last the verdicts. Control characters are visible symbols."""
    shown = [answers(found), coverage(found), _at_k(kept(found), found), varied(found), portfolio(found, found.k)]
    parts = [_table(one) for one in shown if one[2].height]
    parts += ["\n".join(["Notes", *(f"- {visible(note, '')}" for note in found.notes)])] if found.notes else []
    verdicts = (visible(line, "") for name, model in found.models.items() for line in sentences(name, model))
    return "\n\n".join([*parts, "\n".join(verdicts)])


def _at_k(shown: Shown, found: Diagnosis) -> Shown:
    """The rows of K, and of the largest k at which the base compares with itself, if that is smaller."""
    table = found.tables["keep_explore"]
    itself = table.filter(method=BASE_ITSELF)["k"].to_list()
    ks = {str(found.k), *(str(max(itself)) for _ in itself[:1])}
    title, caption, frame = shown
    return title, caption, frame.filter(frame["k"].is_in(ks))


def _table(shown: Shown) -> str:
    title, _, frame = shown
    rows = [[visible(str(cell), "") for cell in row] for row in frame.iter_rows()]
    return f"{title}\n{''.join(_lines(rows, frame.columns))}".rstrip("\n")


def _lines(rows: list[list[str]], heads: list[str]) -> Iterator[str]:
    sides = ["left", *["right"] * (len(heads) - 1)]
    yield tabulate(rows, heads, tablefmt="simple", disable_numparse=True, colalign=sides)
