"""A diagnosis in sentences, for terminal, page and JSON; shares and differences of shares as text."""

from collections.abc import Iterable, Iterator

from dphrl.evaluation import diagnosis as rule
from dphrl.evaluation.diagnosis import KINDS, Diagnosis
from dphrl.evaluation.rarefied import FEWEST_PROMPTS
from dphrl.text import change, count, interval, margin_in_points, percent, points


def sentences(diagnosis: Diagnosis, qualified: Iterable[str]) -> list[str]:
    """The diagnosis, variety, the explanation of a loss, hotter files, the next step, and doubts."""
    lines = [diagnosis_sentence(diagnosis), variety_sentence(diagnosis), *_explained(diagnosis)]
    lines += [*_hotter(diagnosis), *_next(diagnosis)]
    return [*lines, *(f"The diagnosis is qualified: {doubt}" for doubt in qualified)]


def diagnosis_sentence(diagnosis: Diagnosis) -> str:
    """The diagnosis, both pass@k, their difference, reasons of CANNOT TELL, and questions kept, lost and gained."""
    coverage, margin = diagnosis.coverage, margin_in_points(diagnosis.margin)
    narrow = f"(90 % interval {interval(coverage.narrow)})"
    means = ""
    if diagnosis.word in rule.LOSSES:
        means = (
            f"; the loss is smaller than the margin of {margin} points" if -coverage.value < diagnosis.margin else ""
        )
    elif diagnosis.word == rule.CANNOT_TELL and not diagnosis.reasons:
        means = f"; no loss is shown, and one of {margin} points is not excluded {narrow}"
    elif diagnosis.word in (rule.NOT_COLLAPSED, rule.NARROWED):
        means = f"; a loss of {margin} points or more is excluded {narrow}"
    over = f"over {coverage.questions:,} questions" + (f" in {coverage.groups:,} groups" if coverage.groups else "")
    if diagnosis.trainings:
        over += f" and {len(diagnosis.trainings)} trainings ({', '.join(points(gain) for gain in diagnosis.trainings)})"
    hand = ", k chosen by hand" if diagnosis.by_hand else ""
    numbers = (
        f"pass@{diagnosis.k} of {diagnosis.policy} is {percent(coverage.tuned)} %, of the base"
        f" {percent(coverage.base)} %: {points(coverage.value)} points, 95 % interval {interval(coverage.wide)}, {over}"
        f"{hand}"
    )
    reasons = "".join(f" {reason}" for reason in _reasons(diagnosis))
    return (
        f"{diagnosis.word}: {_about(diagnosis)}. {numbers}{means}.{reasons}{_needed(diagnosis)} {_exchange(diagnosis)}"
    )


def _about(diagnosis: Diagnosis) -> str:
    margin = margin_in_points(diagnosis.margin)
    if diagnosis.word == rule.CANNOT_TELL:
        if rule.NOT_FOUND in diagnosis.reasons:
            return "the scorer does not find answers equally often"
        if diagnosis.k == 1:
            return "one answer to a question says nothing about coverage"
        if rule.CHOSEN in diagnosis.reasons:
            return "the questions look chosen by these samples; draw again"
        if rule.GUESSES in diagnosis.reasons:
            return "the loss may be one of guesses"
        return "coverage may or may not have fallen"
    if diagnosis.word == rule.COLLAPSED:
        return "coverage fell, more than accuracy explains" if diagnosis.accuracy.fell else "coverage fell"
    if diagnosis.word == rule.WORSE:
        return "accuracy and coverage fell together"
    if diagnosis.word == rule.SHARPENED:
        return "drawing hotter recovers the lost coverage"
    if diagnosis.word == rule.NARROWED:
        return f"no loss of {margin} points or more of coverage is left open, but right answers vary less"
    if diagnosis.exchange.beyond(diagnosis.margin):
        lost = diagnosis.exchange.lost / (diagnosis.exchange.kept + diagnosis.exchange.lost)
        return (
            f"no loss of {margin} points or more is left open, but {percent(lost)} % of what the base solved was"
            " exchanged"
        )
    return f"no loss of {margin} points or more is left open" + (
        ", and coverage rose" if diagnosis.coverage.wide[0] > 0 else ""
    )


def _reasons(diagnosis: Diagnosis) -> Iterator[str]:
    """A sentence for each reason that applies."""
    k, base, margin = diagnosis.k, percent(diagnosis.coverage.base), margin_in_points(diagnosis.margin)
    for reason in diagnosis.reasons:
        if reason == rule.NOT_FOUND and diagnosis.unanswered is not None:
            yield (
                f"No answer is found in {percent(diagnosis.unanswered.tuned)} % of the samples of {diagnosis.policy}"
                f" and in {percent(diagnosis.unanswered.base)} % of the base's; the end of one without an answer:"
                f" {diagnosis.unanswered.example!r}. Draw longer responses, or ask for answers in another form."
            )
        elif reason == rule.ONE_SAMPLE:
            yield "K is 1, and pass@1 is accuracy: draw more samples of each question."
        elif reason == rule.CHOSEN:
            yield (
                "No question is solved by none of the samples, or none by all, though many nearly are. A filter by"
                " these samples makes an equal model seem worse."
            )
        elif reason == rule.GUESSES and diagnosis.guesses is not None:
            yield (
                f"With the right answer of another question in place of its own, pass@{k} is"
                f" {percent(diagnosis.guesses[1])} % for {diagnosis.policy} and {percent(diagnosis.guesses[0])} % for"
                " the base: fewer different guesses explain half of the loss or more."
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


def _needed(diagnosis: Diagnosis) -> str:
    if diagnosis.word != rule.CANNOT_TELL or diagnosis.reasons:
        return ""
    ways = []
    if diagnosis.more_questions is not None:
        ways.append(f"about {diagnosis.more_questions:,} questions with as many samples")
    if diagnosis.more_samples is not None:
        ways.append(f"about {diagnosis.more_samples:,} samples of each of these questions")
    if not ways:
        more = "train more seeds, or allow" if diagnosis.trainings else "allow"
        return f" Not even 100 times as many questions would tell; {more} a larger margin."
    # For several trainings or groups, how many samples would do is not computed.
    would_do_or_unknown = diagnosis.more_samples or diagnosis.trainings or diagnosis.coverage.groups
    only = "" if would_do_or_unknown else " More samples of these questions alone would not do."
    return f" To tell with a chance of about 80 % at the same k, it takes {', or '.join(ways)}.{only}"


def _explained(diagnosis: Diagnosis) -> Iterator[str]:
    """How much of a loss lower accuracy explains."""
    if diagnosis.word in (*rule.LOSSES, rule.SHARPENED):
        yield (
            f"pass@{diagnosis.k} fell by {percent(-diagnosis.coverage.value)} points; lower accuracy on every question"
            f" alike would explain {percent(abs(diagnosis.explained))} of them (accuracy"
            f" {points(diagnosis.accuracy.value)} {interval(diagnosis.accuracy.wide)})."
        )


def _exchange(diagnosis: Diagnosis) -> str:
    """Questions kept, lost and gained, with the share that another draw of the base keeps."""
    exchange = diagnosis.exchange
    if not exchange.kept + exchange.lost:
        return f"The base solves no question, {diagnosis.policy} {exchange.gained:.1f}."
    chance = "" if exchange.chance is None else f"; another draw of the base keeps {percent(exchange.chance)} %"
    return (
        f"Of {exchange.kept + exchange.lost:.1f} questions that the base solves, {diagnosis.policy} keeps"
        f" {exchange.kept:.1f} and loses {exchange.lost:.1f}; it gains {exchange.gained:.1f}"
        f" (it keeps {percent(exchange.keep)} %{chance})."
    )


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
    fell = {**dict.fromkeys(rule.LOSSES, "Variety fell too"), rule.NOT_COLLAPSED: "Variety fell a little"}
    said = "No difference in variety is shown"
    if high < 0:
        said = fell.get(diagnosis.word, "Variety fell")
    elif low > 0:
        said = "Variety rose"
    return (
        f"{said}: {name} has {count(difference.tuned)} different {KINDS[variety.kind]} among {variety.m} right answers"
        f" to a question, the base {count(difference.base)} ({change(difference.value)}, 95 % interval"
        f" {interval(difference.wide, change)}, {over})."
    )


def _hotter(diagnosis: Diagnosis) -> Iterator[str]:
    hotter = diagnosis.hotter
    if hotter is None:
        return
    chosen = " and ".join(dict.fromkeys(hotter.chosen))
    yield (
        f"Drawn hotter ({chosen}, chosen on one half of the questions and judged on the other),"
        f" pass@{diagnosis.k} of {diagnosis.policy} is {percent(hotter.coverage.tuned)} %, of the base"
        f" {percent(hotter.coverage.base)} %: {points(hotter.coverage.value)} points, 95 % interval"
        f" {interval(hotter.coverage.wide)}; that {'recovers' if hotter.recovers else 'does not recover'} the coverage."
    )


def _next(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.word == rule.COLLAPSED and diagnosis.hotter is None and not diagnosis.accuracy.fell:
        yield (
            f"Next step: draw {diagnosis.policy} at higher temperatures and add the files with --hotter, in a run"
            " with evaluate.hotter. If coverage comes back, the model is sharpened, not collapsed."
        )
