"""A diagnosis in words, for terminal, page and JSON: five lines, and further sentences."""

from collections.abc import Sequence
from typing import NamedTuple

from dphrl.evaluation import diagnosis as rule
from dphrl.evaluation.diagnosis import Diagnosis, Exchange
from dphrl.evaluation.variety import FEWEST_PROMPTS
from dphrl.text import change, count, interval, margin_in_points, percent, points

KINDS = {
    "programs": "programs",
    "styles": "styles",
    "skeletons": "ways of calculating",
    "answers": "answers",
    "responses": "responses",
}
"""Kinds of classes in words."""


class Said(NamedTuple):
    """A word or a reason in sentences: after the word, why, and the next step."""

    about: str
    why: str
    next: str


def five_lines(diagnosis: Diagnosis, doubts: Sequence[str] = ()) -> list[str]:
    """The word, the numbers, the reason, the first doubt, and the next step.

    Args:
        doubts: sentences on the files; a loss that few misjudged samples explain comes before them.
    """
    said = _refused(diagnosis) if diagnosis.word == rule.CANNOT_TELL else _decided(diagnosis)
    first, *others = _doubts(diagnosis, doubts) or ["none is seen in these files."]
    more = f" (and {len(others)} more, below)" if others else ""
    exchange, exchanged = diagnosis.exchange, ""
    if exchange.beyond(diagnosis.coverage.value, diagnosis.margin):
        share = percent(exchange.lost / (exchange.kept + exchange.lost))
        exchanged = f"; {share} % of the questions that the base solves were exchanged for others"
    coverage, hand = diagnosis.coverage, ", k chosen by hand" if diagnosis.by_hand else ""
    over = f"over {coverage.questions:,} questions" + (f" in {coverage.groups:,} groups" if coverage.groups else "")
    if diagnosis.trainings:
        over += f" and {len(diagnosis.trainings)} trainings ({', '.join(points(gain) for gain in diagnosis.trainings)})"
    numbers = (
        f"pass@{diagnosis.k} of {diagnosis.policy} is {percent(coverage.tuned)} %, of the base"
        f" {percent(coverage.base)} %: {points(coverage.value)} points, 95 % interval {interval(coverage.wide)},"
        f" {over}{hand}."
    )
    return [
        f"{diagnosis.word}: {said.about}{exchanged}.",
        numbers,
        f"Reason: {said.why} {_exchange(diagnosis, exchange)}",
        f"Doubt: {first}{more}",
        f"Next: {said.next}",
    ]


def further(diagnosis: Diagnosis, doubts: Sequence[str] = ()) -> list[str]:
    """Variety, hotter files, and the doubts after the first."""
    sentences = [variety_sentence(diagnosis)]
    if (hotter := diagnosis.hotter) is not None:
        sentences.append(
            f"Drawn hotter ({' and '.join(dict.fromkeys(hotter.chosen))}, chosen on one half of the questions and"
            f" judged on the other), pass@{diagnosis.k} of {diagnosis.policy} is {percent(hotter.coverage.tuned)} %, of"
            f" the base {percent(hotter.coverage.base)} %: {points(hotter.coverage.value)} points"
            f" {interval(hotter.coverage.wide)}. {_exchange(diagnosis, hotter.exchange)} That"
            f" {'recovers' if hotter.recovers else 'does not recover'} the coverage."
        )
    return [*sentences, *(f"Doubt: {doubt}" for doubt in _doubts(diagnosis, doubts)[1:])]


def _decided(diagnosis: Diagnosis) -> Said:
    """A diagnosis that is made."""
    margin, narrow = margin_in_points(diagnosis.margin), interval(diagnosis.coverage.narrow)
    explained = (
        f"lower accuracy explains {percent(abs(diagnosis.explained))} of {percent(-diagnosis.coverage.value)} points."
    )
    left_open = f"no loss of {margin} points or more is left open"
    why = f"the 90 % interval {narrow} is above -{margin}."
    if diagnosis.word == rule.COLLAPSED:
        more = ", more than accuracy explains" if diagnosis.accuracy.fell else ""
        hotter = f"draw {diagnosis.policy} hotter and add the files with --hotter (a run: evaluate.hotter)."
        kept = diagnosis.accuracy.fell or diagnosis.hotter is not None
        return Said(f"coverage fell{more}", explained, "train with a penalty that keeps coverage." if kept else hotter)
    if diagnosis.word == rule.WORSE:
        return Said(
            "accuracy and coverage fell together", explained, "mend the training: data, rewards, learning rate."
        )
    if diagnosis.word == rule.SHARPENED:
        return Said(
            "drawing hotter recovers the lost coverage",
            f"hot files have no loss of {margin} points.",
            "sample hotter where many tries count.",
        )
    if diagnosis.word == rule.NARROWED:
        return Said(f"{left_open}, but right answers vary less", why, "look at the variety of right answers.")
    small = f", but a small loss of {percent(-diagnosis.coverage.value)} is shown" if diagnosis.coverage.fell else ""
    rose = ", and coverage rose" if diagnosis.coverage.wide[0] > 0 else ""
    best = "if this is the best of several checkpoints, give all of them: the best hides a loss."
    return Said(f"{left_open}{small}{rose}", why, best)


def _refused(diagnosis: Diagnosis) -> Said:
    """CANNOT TELL, by its first reason."""
    k, margin, name = diagnosis.k, margin_in_points(diagnosis.margin), diagnosis.policy
    reason = next(iter(diagnosis.reasons), None)
    if reason == rule.NOT_FOUND and diagnosis.unanswered is not None:
        missing = diagnosis.unanswered
        return Said(
            "too many answers are not found",
            f"no answer is found in {percent(missing.tuned)} % of the samples of {name} and in"
            f" {percent(missing.base)} % of the base's; one ends with {missing.example!r}.",
            "draw longer responses, or ask for answers in a form that the scorer reads (docs/scoring.md).",
        )
    if reason == rule.GUESSES and diagnosis.guesses is not None:
        return Said(
            "the loss may be one of guesses",
            f"with the right answer of another question pass@{k} is {percent(diagnosis.guesses[1])} % for {name},"
            f" {percent(diagnosis.guesses[0])} % for the base: fewer guesses explain half of the loss or more.",
            "ask for answers that cannot be guessed.",
        )
    said = {
        rule.ONE_SAMPLE: Said(
            "one answer to a question says nothing about coverage",
            "K is 1, and pass@1 is accuracy.",
            "draw more samples of each question.",
        ),
        rule.CHOSEN: Said(
            "the questions look chosen by these samples",
            "no question is solved by none of the samples, or none by all, though many nearly are.",
            "draw again; a filter by these samples makes an equal model seem worse.",
        ),
        rule.UNSOLVED: Said("nothing could be lost", "no model solves any question.", "use easier questions."),
        rule.TOO_HARD: Said(
            "these questions can show a loss, but no health",
            f"the base solves only {percent(diagnosis.coverage.base)} % within {k} samples, less than two margins.",
            "use easier questions, or a smaller --margin.",
        ),
        rule.CEILING: Said(
            "no loss could be seen", "both models are right on nearly every sample.", "use harder questions."
        ),
    }
    if reason in said:
        return said[reason]
    narrow = interval(diagnosis.coverage.narrow)
    excluded = f"no loss is shown, and one of {margin} points is not excluded (90 % interval {narrow})."
    return Said("coverage may or may not have fallen", excluded, _needed(diagnosis))


def _needed(diagnosis: Diagnosis) -> str:
    ways = []
    if diagnosis.more_questions is not None:
        ways.append(f"about {diagnosis.more_questions:,} questions with as many samples")
    if diagnosis.more_samples is not None:
        ways.append(f"about {diagnosis.more_samples:,} samples of each of these questions")
    if not ways:
        more = "train more seeds, or allow" if diagnosis.trainings else "allow"
        return f"{more} a larger margin; not even 100 times as many questions would tell."
    return f"draw {', or '.join(ways)}; that tells in about 80 % of cases."


def _exchange(diagnosis: Diagnosis, exchange: Exchange) -> str:
    """Questions kept, lost and gained, with the loss by chance."""
    solved = exchange.kept + exchange.lost
    if not solved:
        return f"The base solves no question, {diagnosis.policy} {exchange.gained:.1f}."
    chance = "" if exchange.chance is None else f" ({exchange.chance:.1f} by chance)"
    return f"Of {solved:.1f} solved questions {exchange.lost:.1f} are lost{chance}, {exchange.gained:.1f} gained."


def _doubts(diagnosis: Diagnosis, of_files: Sequence[str]) -> list[str]:
    if not diagnosis.tips or diagnosis.tipping is None:
        return list(of_files)
    share = f"{100 * diagnosis.tipping:.2g} %"
    return [f"if {share} of the base's wrong samples were right by mistake, no loss would be shown.", *of_files]


def variety_sentence(diagnosis: Diagnosis) -> str:
    """Variety among right answers; below a diagnosis of health it can be NARROWED."""
    name, variety = diagnosis.policy, diagnosis.variety
    if variety is None:
        return (
            f"Variety of {name} is not known: that takes texts, and {FEWEST_PROMPTS} questions with two or more right"
            " answers in both files."
        )
    difference = variety.difference
    over = f"over {difference.questions:,} questions"
    if variety.kind in ("answers", "responses") and difference.base == difference.tuned == 1.0:
        return (
            f"Variety of {name} is not known: {variety.m} right answers to a question are always the same, in both"
            f" models, {over}; such short answers cannot show variety."
        )
    low, high = difference.wide
    said = "No difference in variety is shown"
    # A difference that reads as 0.00 is none.
    if float(change(difference.value)):
        said = "Variety fell" if high < 0 else "Variety rose" if low > 0 else said
    return (
        f"{said}: {name} has {count(difference.tuned)} different {KINDS[variety.kind]} among {variety.m} right answers"
        f" to a question, the base {count(difference.base)} ({change(difference.value)}, 95 % interval"
        f" {interval(difference.wide, change)}, {over})."
    )
