"""The diagnosis on a tuned model: its losses of coverage, accuracy and variety, by one rule for files and runs.

`decide` asks in this order: can the samples answer at all; is a loss as large as the margin ruled out; is a loss shown.
So a loss smaller than the margin is no collapse. Every interval is over questions, or groups of questions, and over the
trainings of a model with several.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dphrl.evaluation.chosen import choice_explains
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.exchange import Exchange, exchanged
from dphrl.evaluation.interval import Floats, holm
from dphrl.evaluation.paired import LEVEL, PairedDifference, binomial, needed, paired_difference
from dphrl.evaluation.study import Policy
from dphrl.evaluation.variety import Variety

COLLAPSED, WORSE, SHARPENED, NARROWED = "COLLAPSED", "WORSE", "SHARPENED", "NARROWED"
NOT_COLLAPSED, CANNOT_TELL = "NOT COLLAPSED", "CANNOT TELL"
LOSSES = (COLLAPSED, WORSE)
EXIT = {NOT_COLLAPSED: 0, NARROWED: 0, SHARPENED: 0, COLLAPSED: 3, WORSE: 3, CANNOT_TELL: 4}
# Reasons of CANNOT TELL: the refusals, then the conditions that hide health.
ONE_SAMPLE, CHOSEN, GUESSES = "one sample", "chosen questions", "guesses"
NOT_FOUND = "answers not found"
UNSOLVED, TOO_HARD, CEILING = "nothing solved", "too hard", "ceiling"
# K falls where more questions than this share have fewer samples.
LEFT_OUT = 0.2
TIPS = 0.01
"""A loss that so small a share of misjudged samples explains is qualified."""


@dataclass(frozen=True)
class Hotter:
    """The tuned model at higher temperatures: chosen on one half of the questions, judged on the other, both ways.

    `chosen` are the names of the files or temperatures that the halves choose. `coverage` and `exchange` are of the
    judged halves. `recovers`: the judged halves have no loss of the margin, and bring back the questions of the base.
    """

    chosen: tuple[str, ...]
    coverage: PairedDifference
    exchange: Exchange
    recovers: bool


@dataclass(frozen=True)
class Unanswered:
    """Shares of samples in which the scorer finds no answer, and the end of such a sample of the larger share."""

    base: float
    tuned: float
    example: str


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis on a tuned model, from which text, page, JSON and exit status are drawn.

    Attributes:
        policy: its name.
        word: a key of `EXIT`.
        reasons: refusals, and conditions that hide health; the conditions are listed whatever the word is.
        k, margin: of the diagnosis; the margin is a share (0.05 for 5 points).
        by_hand: k was chosen by the user.
        coverage, accuracy: pass@k and pass@1 of both models.
        explained: the difference of pass@k that the lower accuracy explains, if every question is solved less often by
            one factor; 0 where accuracy did not fall.
        rest: the difference of pass@k beyond it.
        tipping: the share of the base's wrong samples that, judged right by mistake, would leave no loss shown; None
            where no loss is shown.
        exchange: questions kept, lost and gained.
        trainings: difference of pass@k of each of several trainings; empty for one training.
        guesses: pass@k of both models with the right answer of another question; None without classes of answers.
        unanswered: None where the shares are small and do not differ, or are not known.
        variety: of the first kind of classes; None where it is not known.
        hotter: None without files at higher temperatures.
        corrected: p of the loss of coverage after Holm's correction over the tuned models.
        more_questions, more_samples: sizes that would tell, with CANNOT TELL; None where not even 100 times as many
            questions, or 64 times as many samples of each, would.
    """

    policy: str
    word: str
    reasons: tuple[str, ...]
    k: int
    margin: float
    by_hand: bool
    coverage: PairedDifference
    accuracy: PairedDifference
    explained: float
    rest: PairedDifference
    tipping: float | None
    exchange: Exchange
    trainings: tuple[float, ...] = ()
    guesses: tuple[float, float] | None = None
    unanswered: Unanswered | None = None
    variety: Variety | None = None
    hotter: Hotter | None = None
    corrected: float = 1.0
    more_questions: int | None = None
    more_samples: int | None = None

    @property
    def tips(self) -> bool:
        """Whether few misjudged samples of the base would explain the loss."""
        return self.word in (*LOSSES, SHARPENED) and self.tipping is not None and self.tipping < TIPS


def diagnosis_k(sizes: NDArray[np.integer]) -> int:
    """K of a diagnosis: the largest power of two up to half of a question's samples, 2 for 2 or 3, 1 for one sample.

    With K = n a question counts 0 or 1, and one lucky sample is a solved question. K falls where more than a fifth of
    the questions have fewer samples.

    Args:
        sizes: (questions,), the smaller number of samples in the files.
    """
    number = int(np.median(sizes))
    k = min(number, 2) if number < 4 else 1 << ((number // 2).bit_length() - 1)
    while k > 1 and (sizes < k).mean() > LEFT_OUT:
        k //= 2
    return k


def decide(
    base: Policy,
    trainings: Sequence[Policy],
    k: int,
    margin: float,
    *,
    chosen: bool = False,
    guesses: tuple[float, float] | None = None,
    unanswered: Unanswered | None = None,
    variety: Variety | None = None,
    by_hand: bool = False,
) -> Diagnosis:
    """The diagnosis on a tuned model, of one training or several, against the base, on the same questions.

    Args:
        base, trainings: k samples of each question or more.
        chosen: the questions look chosen by these samples.
        guesses: pass@k of both models with the right answer of another question.
        unanswered: shares of samples without an answer, if they differ or are large.
        variety: of the first kind of classes that the files have.
        by_hand: k was chosen by the user.
    """
    clusters = base.clusters
    solved, after = base.pass_at([k])[:, 0], np.stack([policy.pass_at([k])[:, 0] for policy in trainings])
    right, right_after = base.solve_rates, np.stack([policy.solve_rates for policy in trainings])
    coverage, accuracy = paired_difference(solved, after, clusters), paired_difference(right, right_after, clusters)
    explained, rest = _beyond_accuracy(base, after, right_after, k)
    ruled_out = coverage.narrow[0] > -margin
    reasons = [
        name for name, holds in ((NOT_FOUND, unanswered is not None), (ONE_SAMPLE, k == 1), (CHOSEN, chosen)) if holds
    ]
    hidden = _hidden(coverage, accuracy, margin)
    # Where the base solves little, a loss below the margin may be a loss of everything.
    loss = coverage.fell and (not ruled_out or hidden == TOO_HARD)
    if loss and guesses is not None and 2.0 * (guesses[0] - guesses[1]) >= -coverage.value:
        reasons.append(GUESSES)
    if loss and not chosen and choice_explains(coverage, base, k):
        reasons.append(CHOSEN)
    refused = bool(reasons)
    reasons += [hidden] if hidden else []
    if refused:
        word = CANNOT_TELL
    elif ruled_out and not hidden:
        word = NARROWED if variety is not None and variety.narrowed else NOT_COLLAPSED
    elif loss:
        word = COLLAPSED if not accuracy.fell or rest.fell else WORSE
    else:
        word = CANNOT_TELL
    more: tuple[int | None, int | None] = (None, None)
    if word == CANNOT_TELL and not reasons:
        more = needed(base, trainings, coverage, k, margin)
    return Diagnosis(
        trainings[0].key.method,
        word,
        tuple(reasons),
        k,
        margin,
        by_hand,
        coverage,
        accuracy,
        explained,
        rest,
        _tipping(coverage, k),
        exchanged(base.counts, np.stack([policy.counts for policy in trainings]), k, clusters),
        tuple((after.mean(axis=1) - solved.mean()).tolist()) if len(after) > 1 else (),
        guesses,
        unanswered,
        variety,
        more_questions=more[0],
        more_samples=more[1],
    )


def together(diagnoses: Sequence[Diagnosis]) -> tuple[list[Diagnosis], int]:
    """The diagnoses of several tuned models with Holm's correction, and the exit status of all.

    The exit status is 3 where a corrected test confirms a loss of coverage. A loss of variety is named where a
    corrected test confirms it; these tests are a separate family.
    """
    losses = holm([diagnosis.coverage.p for diagnosis in diagnoses])
    varieties = holm(
        [np.nan if diagnosis.variety is None else diagnosis.variety.difference.p for diagnosis in diagnoses]
    )
    corrected = []
    for diagnosis, p, narrowed in zip(diagnoses, losses.tolist(), varieties.tolist(), strict=True):
        keeps = diagnosis.word != NARROWED or narrowed <= LEVEL
        corrected.append(replace(diagnosis, corrected=p, word=diagnosis.word if keeps else NOT_COLLAPSED))
    words = {diagnosis.word for diagnosis in corrected}
    if any(
        diagnosis.word in LOSSES and (diagnosis.corrected <= LEVEL or len(corrected) == 1) for diagnosis in corrected
    ):
        return corrected, EXIT[COLLAPSED]
    return corrected, EXIT[CANNOT_TELL] if words & {CANNOT_TELL, *LOSSES} else EXIT[NOT_COLLAPSED]


def hotter(diagnosis: Diagnosis, base: Policy, drawn: Mapping[str, Sequence[Policy]], seed: int) -> Diagnosis:
    """The diagnosis with the answer of the same tuned model drawn at higher temperatures; only COLLAPSED changes.

    It becomes SHARPENED if three conditions hold. Accuracy at the base's temperature has not fallen. At the temperature
    that the other half of the questions chooses, a loss of pass@k as large as the margin is ruled out. So is such a
    loss on the questions that the base solves: questions that are gained do not bring the lost ones back.

    Args:
        base, drawn: on the same questions; those with k samples everywhere count. Halves are drawn group by group. A
            temperature has a policy for each training of the model.
    """
    k, margin = diagnosis.k, diagnosis.margin
    enough = np.min([policy.sizes for trainings in drawn.values() for policy in trainings], axis=0) >= k
    clusters = None if base.clusters is None else base.clusters[enough]
    of_base = base.counts[:, enough]
    tried = np.stack([[policy.counts[:, enough] for policy in trainings] for trainings in drawn.values()])
    solved = np.asarray(pass_at_k(tried[:, :, 0], tried[:, :, 1], k))
    unit = np.arange(int(enough.sum())) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units = int(unit.max()) + 1
    first = np.isin(unit, np.random.default_rng(seed).permutation(units)[: units // 2])
    best = [int(solved[:, :, half].mean(axis=(1, 2)).argmax()) if half.any() else 0 for half in (~first, first)]
    judged, after = (np.where(first, each[best[0]], each[best[1]]) for each in (tried, solved))
    coverage = paired_difference(np.asarray(pass_at_k(of_base[0], of_base[1], k)), after, clusters)
    exchange = exchanged(of_base, judged, k, clusters)
    ends = (end for gap in (coverage, exchange.fallen) for end in (gap.narrow[0], gap.wide[0]))
    recovers = min(ends) > -margin and coverage.base >= 2.0 * margin
    answer = Hotter(tuple(list(drawn)[index] for index in best), coverage, exchange, recovers)
    sharpened = diagnosis.word == COLLAPSED and recovers and not diagnosis.accuracy.fell
    return replace(diagnosis, hotter=answer, word=SHARPENED if sharpened else diagnosis.word)


def _hidden(coverage: PairedDifference, accuracy: PairedDifference, margin: float) -> str | None:
    """Why a loss of coverage would not show; None if it would."""
    if not coverage.base and not coverage.tuned:
        return UNSOLVED
    if coverage.base < 2.0 * margin:
        return TOO_HARD
    # A loss that is shown was not hidden.
    return CEILING if min(accuracy.base, accuracy.tuned) >= 1.0 - margin and not coverage.fell else None


def _tipping(coverage: PairedDifference, k: int) -> float | None:
    """The share r of the base's wrong samples that, judged right by mistake, would leave no loss shown.

    With such mistakes k samples of a question miss with (1 - r)^k times the chance of before. So a measured mean P of
    pass@k is 1 - (1 - P) / (1 - r)^k without them, whatever the questions are; r makes up for the end of the interval.
    """
    if not coverage.fell or coverage.base >= 1.0:
        return None
    return float(1.0 - (1.0 - coverage.wide[1] / (1.0 - coverage.base)) ** (-1.0 / k))


def _beyond_accuracy(base: Policy, after: Floats, right: Floats, k: int) -> tuple[float, PairedDifference]:
    """The difference of pass@k that lower accuracy explains, and the rest.

    A thinned base is right theta times as often on every question, theta the ratio of the accuracies. Its pass@k is
    exactly the sum over j of Binomial(k, theta)(j) pass@j of the base. The interval of the rest is by the delta method.

    Args:
        after, right: (trainings, questions), pass@k and solve rates of the tuned model.
    """
    accuracy = float(base.solve_rates.mean())
    theta = float(right.mean()) / accuracy if accuracy else 1.0
    n, c, place = base.pairs
    solved = np.hstack(
        [np.zeros((len(n), 1)), np.asarray(pass_at_k(n[:, None], c[:, None], np.arange(1, k + 1)[None]))]
    )
    if theta >= 1.0:
        thinned, slope = solved[:, k][place], 0.0
    else:
        thinned = (solved @ binomial(k, theta))[place]
        slope = float((k * np.diff(solved, axis=1) @ binomial(k - 1, theta))[place].mean())
    moved = slope * (right - theta * base.solve_rates) / accuracy if slope else 0.0
    rest = paired_difference(thinned, after - moved, base.clusters, shares=False)
    return float((thinned - solved[:, k][place]).mean()), rest
