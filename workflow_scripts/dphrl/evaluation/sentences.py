"""The verdict, the variety and what qualifies the verdict, in sentences."""

from collections.abc import Iterable

from dphrl.evaluation.rarefied import FEWEST_PROMPTS
from dphrl.evaluation.verdict import CANNOT_TELL, COLLAPSED, KINDS, NOT_COLLAPSED, Variety, Verdict
from dphrl.pages.numbers import change, interval, margin_in_points, percent, points


def verdict_sentence(verdict: Verdict) -> str:
    """The verdict and what it is about, the two pass@k, their difference with its interval, and what that means."""
    found, margin = verdict.difference, margin_in_points(verdict.margin)
    narrow = interval(found.narrow)
    means = {
        COLLAPSED: f"the loss is smaller than the margin of {margin} points" if -found.value < verdict.margin else "",
        CANNOT_TELL: f"no loss is shown, and one of {margin} points is not excluded (90 % interval {narrow})",
    }.get(verdict.word, f"a loss of more than {margin} points is excluded (90 % interval {narrow})")
    numbers = (
        f"pass@{verdict.k} of {verdict.policy} is {percent(verdict.tuned)} %, of the base {percent(verdict.base)} %:"
        f" {points(found.value)} points, 95 % interval {interval(found.wide)}, over {found.questions:,} questions"
    )
    return f"{verdict.word}: {_about(verdict)}. {numbers}{'; ' + means if means else ''}.{_needed(verdict)}"


def _about(verdict: Verdict) -> str:
    what = "accuracy" if verdict.k == 1 else "coverage"
    if verdict.word == CANNOT_TELL:
        return f"{what} may or may not have fallen"
    if verdict.word == COLLAPSED:
        return f"{what} fell"
    return f"{what} rose" if verdict.difference.wide[0] > 0 else f"{what} is kept"


def _needed(verdict: Verdict) -> str:
    if verdict.word != CANNOT_TELL:
        return ""
    ways = []
    if verdict.more_questions is not None:
        ways.append(f"about {verdict.more_questions:,} questions with as many samples")
    if verdict.more_samples is not None:
        ways.append(f"about {verdict.more_samples:,} samples of each of these questions")
    if not ways:
        return " Not even 100 times as many questions would tell; allow a larger margin."
    only = "" if verdict.more_samples is not None else " More samples of these questions alone would not do."
    return f" To tell with 80 % chance at the same k, it takes {', or '.join(ways)}.{only}"


def variety_sentence(verdict: Verdict, found: Variety | None) -> str:
    """Variety among right answers; it never changes the verdict."""
    name = verdict.policy
    if found is None:
        return (
            f"Variety of {name} is not known: that takes {FEWEST_PROMPTS} questions with two or more right answers in"
            " both files."
        )
    difference = found.difference
    over = f"over {difference.questions:,} questions"
    if found.kind == "answers" and found.base == found.tuned == 1.0:
        return (
            f"Variety of {name} is not known: {found.m} right answers to a question are always the same, in both"
            f" models, {over}; such short answers cannot show variety."
        )
    low, high = difference.wide
    fell = {COLLAPSED: "Variety fell too", NOT_COLLAPSED: "Variety fell all the same"}.get(verdict.word, "Variety fell")
    said = fell if high < 0 else "Variety rose" if low > 0 else "No difference in variety is shown"
    return (
        f"{said}: {name} has {found.tuned:.2f} different {KINDS[found.kind]} among {found.m} right answers to a"
        f" question, the base {found.base:.2f} ({change(difference.value)}, 95 % interval"
        f" {interval(difference.wide, change)}, {over})."
    )


def sentences(verdict: Verdict, variety: Variety | None, qualified: Iterable[str]) -> list[str]:
    """The verdict of a model, its variety, and what qualifies the verdict."""
    of_files = (f"The verdict is qualified: {one}" for one in qualified)
    return [verdict_sentence(verdict), variety_sentence(verdict, variety), *of_files]
