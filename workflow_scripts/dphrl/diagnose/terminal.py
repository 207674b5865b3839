"""A diagnosis as text for a terminal."""

from tabulate import tabulate

from dphrl.diagnose.diagnosis import Diagnosis
from dphrl.diagnose.sentences import sentences
from dphrl.diagnose.shown import Shown, answers, coverage, kept, portfolio, varied
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.pages.visible import visible

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
    verdicts = ("\n".join(visible(line, "") for line in sentences(model)) for model in found.models.values())
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
