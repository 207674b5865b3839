"""The verdict and what goes with it, in sentences."""

from collections.abc import Iterable

from dphrl.diagnose.diagnosis import OfModel
from dphrl.diagnose.variety import KINDS, Variety
from dphrl.diagnose.verdict import CANNOT_TELL, COLLAPSED, Verdict


def verdict_sentence(verdict: Verdict) -> str:
    """The verdict, the two pass@k, their difference with its interval, and what that means."""
    found, margin = verdict.difference, points(verdict.margin)
    narrow = interval(found.narrow)
    means = {
        COLLAPSED: f"the loss is smaller than the margin of {margin} points" if -found.value < verdict.margin else "",
        CANNOT_TELL: f"neither a loss nor its absence within {margin} points is shown (90 % interval {narrow})",
    }.get(verdict.word, f"a loss of more than {margin} points is excluded (90 % interval {narrow})")
    numbers = (
        f"pass@{verdict.k} of {verdict.policy} is {percent(verdict.tuned)} %, of the base {percent(verdict.base)} %:"
        f" {signed(found.value)} points, 95 % interval {interval(found.wide)}, over {found.questions:,} questions"
    )
    return f"{verdict.word}: {numbers}{'; ' + means if means else ''}.{_needed(verdict)}"


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
    only = "" if verdict.more_samples is not None else " More samples of these questions alone would not."
    return f" To tell, it takes {', or '.join(ways)}, with the same k and 80 % chance.{only}"


def variety_sentence(name: str, found: Variety | None) -> str:
    """Variety among right answers; it never changes the verdict."""
    if found is None:
        return (
            f"Variety among right answers of {name}: not known, as fewer than 30 questions have two right answers in"
            " both files."
        )
    difference = found.difference
    if found.kind == "answers" and found.base == found.tuned == 1.0:
        return (
            f"Among {found.m} right answers to a question, all are the same text in both models, over"
            f" {difference.questions:,} questions: such short answers cannot show variety."
        )
    low, high = difference.wide
    word = "less variety" if high < 0 else "more variety" if low > 0 else "no difference is shown"
    return (
        f"Among {found.m} right answers, {name} has {found.tuned:.2f} different {KINDS[found.kind]} and the base"
        f" {found.base:.2f}: {difference.value:+.2f}, 95 % interval [{low:+.2f}, {high:+.2f}], over"
        f" {difference.questions:,} questions ({word})."
    )


def sentences(name: str, model: OfModel) -> list[str]:
    """The verdict of a model, its variety, and what qualifies the verdict."""
    first = next(iter(model.varieties), None)
    qualified = (f"The verdict is qualified: {one}" for one in model.qualified)
    return [verdict_sentence(model.verdict), variety_sentence(name, first), *qualified]


def percent(share: float) -> str:
    """A share in per cent, with one digit."""
    return f"{100 * share:.1f}"


def points(share: float) -> str:
    """A margin in points, without needless digits."""
    return f"{100 * share:g}"


def signed(share: float) -> str:
    """A difference of shares in points."""
    return f"{100 * share:+.1f}"


def interval(ends: Iterable[float]) -> str:
    """An interval of a difference of shares, in points."""
    return f"[{', '.join(signed(end) for end in ends)}]"
