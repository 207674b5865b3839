"""A verdict in sentences, for terminal, page and JSON; shares and differences of shares as text."""

from collections.abc import Iterable, Iterator

from dphrl.evaluation import verdict as rule
from dphrl.evaluation.rarefied import FEWEST_PROMPTS
from dphrl.evaluation.verdict import KINDS, Verdict
from dphrl.text import change, count, interval, margin_in_points, percent, points


def sentences(verdict: Verdict, qualified: Iterable[str]) -> list[str]:
    """The verdict, variety, the explanation of a loss, hotter files, the next step, and doubts about the verdict."""
    lines = [verdict_sentence(verdict), variety_sentence(verdict), *_explained(verdict)]
    lines += [*_hotter(verdict), *_next(verdict)]
    return [*lines, *(f"The verdict is qualified: {doubt}" for doubt in qualified)]


def verdict_sentence(verdict: Verdict) -> str:
    """The verdict, both pass@k, their difference, reasons of CANNOT TELL, and questions kept, lost and gained."""
    coverage, margin = verdict.coverage, margin_in_points(verdict.margin)
    narrow = f"(90 % interval {interval(coverage.narrow)})"
    means = ""
    if verdict.word in rule.LOSSES:
        means = f"; the loss is smaller than the margin of {margin} points" if -coverage.value < verdict.margin else ""
    elif verdict.word == rule.CANNOT_TELL and not verdict.reasons:
        means = f"; no loss is shown, and one of {margin} points is not excluded {narrow}"
    elif verdict.word in (rule.NOT_COLLAPSED, rule.NARROWED):
        means = f"; a loss of {margin} points or more is excluded {narrow}"
    over = f"over {coverage.questions:,} questions" + (f" in {coverage.groups:,} groups" if coverage.groups else "")
    if verdict.trainings:
        over += f" and {len(verdict.trainings)} trainings ({', '.join(points(gain) for gain in verdict.trainings)})"
    hand = ", k chosen by hand" if verdict.by_hand else ""
    numbers = (
        f"pass@{verdict.k} of {verdict.policy} is {percent(coverage.tuned)} %, of the base {percent(coverage.base)} %:"
        f" {points(coverage.value)} points, 95 % interval {interval(coverage.wide)}, {over}{hand}"
    )
    reasons = "".join(f" {reason}" for reason in _reasons(verdict))
    return f"{verdict.word}: {_about(verdict)}. {numbers}{means}.{reasons}{_needed(verdict)} {_exchange(verdict)}"


def _about(verdict: Verdict) -> str:
    margin = margin_in_points(verdict.margin)
    if verdict.word == rule.CANNOT_TELL:
        if verdict.k == 1:
            return "one answer to a question says nothing about coverage"
        if rule.CHOSEN in verdict.reasons:
            return "the questions look chosen by these samples; draw again"
        if rule.GUESSES in verdict.reasons:
            return "the loss may be one of guesses"
        return "coverage may or may not have fallen"
    if verdict.word == rule.COLLAPSED:
        return "coverage fell, more than accuracy explains" if verdict.accuracy.fell else "coverage fell"
    if verdict.word == rule.WORSE:
        return "accuracy and coverage fell together"
    if verdict.word == rule.SHARPENED:
        return "drawing hotter recovers the lost coverage"
    if verdict.word == rule.NARROWED:
        return f"no loss of {margin} points or more of coverage is left open, but right answers vary less"
    if verdict.exchange.beyond(verdict.margin):
        lost = verdict.exchange.lost / (verdict.exchange.kept + verdict.exchange.lost)
        return (
            f"no loss of {margin} points or more is left open, but {percent(lost)} % of what the base solved was"
            " exchanged"
        )
    return f"no loss of {margin} points or more is left open" + (
        ", and coverage rose" if verdict.coverage.wide[0] > 0 else ""
    )


def _reasons(verdict: Verdict) -> Iterator[str]:
    """A sentence for each reason that applies."""
    k, base, margin = verdict.k, percent(verdict.coverage.base), margin_in_points(verdict.margin)
    for reason in verdict.reasons:
        if reason == rule.ONE_SAMPLE:
            yield "K is 1, and pass@1 is accuracy: draw more samples of each question."
        elif reason == rule.CHOSEN:
            yield (
                "No question is solved by none of the samples, or none by all, though many nearly are. A filter by"
                " these samples makes an equal model seem worse."
            )
        elif reason == rule.GUESSES and verdict.guesses is not None:
            yield (
                f"With the right answer of another question in place of its own, pass@{k} is"
                f" {percent(verdict.guesses[1])} % for {verdict.policy} and {percent(verdict.guesses[0])} % for the"
                " base: fewer different guesses explain half of the loss or more."
            )
        elif reason == rule.UNSOLVED:
            yield "No model solves any question, so nothing could be lost."
        elif reason == rule.TOO_HARD:
            yield (
                f"The base solves only {base} % within {k} samples, less than twice the margin of {margin} points:"
                " these questions can show a loss, but no health. Use easier questions, or a smaller --margin."
            )
        elif reason == rule.CEILING:
            yield (
                "Both models are right on nearly every sample, so no loss of coverage could be seen. Use harder"
                " questions."
            )


def _needed(verdict: Verdict) -> str:
    if verdict.word != rule.CANNOT_TELL or verdict.reasons:
        return ""
    ways = []
    if verdict.more_questions is not None:
        ways.append(f"about {verdict.more_questions:,} questions with as many samples")
    if verdict.more_samples is not None:
        ways.append(f"about {verdict.more_samples:,} samples of each of these questions")
    if not ways:
        more = "train more seeds, or allow" if verdict.trainings else "allow"
        return f" Not even 100 times as many questions would tell; {more} a larger margin."
    # For several trainings or groups, how many samples would do is not computed.
    would_do_or_unknown = verdict.more_samples or verdict.trainings or verdict.coverage.groups
    only = "" if would_do_or_unknown else " More samples of these questions alone would not do."
    return f" To tell with a chance of about 80 % at the same k, it takes {', or '.join(ways)}.{only}"


def _explained(verdict: Verdict) -> Iterator[str]:
    """How much of a loss lower accuracy explains."""
    if verdict.word in (*rule.LOSSES, rule.SHARPENED):
        yield (
            f"pass@{verdict.k} fell by {percent(-verdict.coverage.value)} points; lower accuracy on every question"
            f" alike would explain {percent(abs(verdict.explained))} of them (accuracy"
            f" {points(verdict.accuracy.value)} {interval(verdict.accuracy.wide)})."
        )


def _exchange(verdict: Verdict) -> str:
    """Questions kept, lost and gained, with the share that another draw of the base keeps."""
    exchange = verdict.exchange
    if not exchange.kept + exchange.lost:
        return f"The base solves no question, {verdict.policy} {exchange.gained:.1f}."
    chance = "" if exchange.chance is None else f"; another draw of the base keeps {percent(exchange.chance)} %"
    return (
        f"Of {exchange.kept + exchange.lost:.1f} questions that the base solves, {verdict.policy} keeps"
        f" {exchange.kept:.1f} and loses {exchange.lost:.1f}; it gains {exchange.gained:.1f}"
        f" (it keeps {percent(exchange.keep)} %{chance})."
    )


def variety_sentence(verdict: Verdict) -> str:
    """Variety among right answers; below a verdict of health it can be NARROWED."""
    name, variety = verdict.policy, verdict.variety
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
    fell = {**dict.fromkeys(rule.LOSSES, "Variety fell too"), rule.NOT_COLLAPSED: "Variety fell a little"}
    said = "No difference in variety is shown"
    if high < 0:
        said = fell.get(verdict.word, "Variety fell")
    elif low > 0:
        said = "Variety rose"
    return (
        f"{said}: {name} has {count(difference.tuned)} different {KINDS[variety.kind]} among {variety.m} right answers"
        f" to a question, the base {count(difference.base)} ({change(difference.value)}, 95 % interval"
        f" {interval(difference.wide, change)}, {over})."
    )


def _hotter(verdict: Verdict) -> Iterator[str]:
    hotter = verdict.hotter
    if hotter is None:
        return
    chosen = " and ".join(dict.fromkeys(hotter.chosen))
    yield (
        f"Drawn hotter ({chosen}, chosen on one half of the questions and judged on the other),"
        f" pass@{verdict.k} of {verdict.policy} is {percent(hotter.coverage.tuned)} %, of the base"
        f" {percent(hotter.coverage.base)} %: {points(hotter.coverage.value)} points, 95 % interval"
        f" {interval(hotter.coverage.wide)}; that {'recovers' if hotter.recovers else 'does not recover'} the coverage."
    )


def _next(verdict: Verdict) -> Iterator[str]:
    if verdict.word == rule.COLLAPSED and verdict.hotter is None and not verdict.accuracy.fell:
        yield (
            f"Next step: draw {verdict.policy} at higher temperatures and add the files with --hotter, in a run"
            " with evaluate.hotter. If coverage comes back, the model is sharpened, not collapsed."
        )
