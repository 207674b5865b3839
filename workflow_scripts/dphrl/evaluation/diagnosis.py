"""The diagnosis on a tuned model: its losses of coverage, accuracy and variety, by one rule for files and runs.

Refusals come first, then a loss of coverage, then variety, then health: the order of `decide`. Every interval is over
questions, or groups of questions, and over the trainings of a model with several.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dphrl.evaluation.estimator import class_counts, entropy, pass_at_k, rarefied
from dphrl.evaluation.interval import Floats, Questions, estimate, holm, wilson
from dphrl.evaluation.paired import LEVEL, WIDE, Compared, Paired, binomial, compared, needed, paired
from dphrl.evaluation.rarefied import FEWEST_PROMPTS, SIZES
from dphrl.evaluation.study import Policy, Study

COLLAPSED, WORSE, SHARPENED, NARROWED = "COLLAPSED", "WORSE", "SHARPENED", "NARROWED"
NOT_COLLAPSED, CANNOT_TELL = "NOT COLLAPSED", "CANNOT TELL"
LOSSES = (COLLAPSED, WORSE)
EXIT = {NOT_COLLAPSED: 0, NARROWED: 0, SHARPENED: 0, COLLAPSED: 3, WORSE: 3, CANNOT_TELL: 4}
# Reasons of CANNOT TELL: the refusals, then the conditions that hide health.
ONE_SAMPLE, CHOSEN, GUESSES = "one sample", "chosen questions", "guesses"
NOT_FOUND = "answers not found"
UNSOLVED, TOO_HARD, CEILING = "nothing solved", "too hard", "ceiling"
KINDS = {
    "programs": "programs",
    "styles": "styles",
    "skeletons": "ways of calculating",
    "answers": "answers",
    "responses": "responses",
}
"""Kinds of classes in the order of preference, with the words for them; the first kind of a file is reported."""
# K falls where more questions than this share have fewer samples.
LEFT_OUT = 0.2
# The quantile of a 95 % interval of a normal variable.
_NORMAL = 1.96
# The smallest loss of variety that is named, as a share of the base's excess over one class.
_NAMED_VARIETY = 0.1


@dataclass(frozen=True)
class Variety:
    """Different classes among m right answers, over the questions of which both models have m.

    Attributes:
        kind: a key of `KINDS`.
        m: right answers.
        difference: of the expected numbers of classes among them.
        effective: of base and tuned model, exp of the entropy of the classes of right answers, means over questions.
    """

    kind: str
    m: int
    difference: Compared
    effective: tuple[float, float]

    @property
    def narrowed(self) -> bool:
        """Whether variety is lost, and by at least a tenth of the base's excess over one class."""
        difference = self.difference
        return difference.fell and -difference.value >= _NAMED_VARIETY * (difference.base - 1.0)


@dataclass(frozen=True)
class Exchange:
    """Expected numbers of questions that k samples solve: by both, the base only, the tuned model only, neither.

    `keep` is the share of the base's solved questions that the tuned model solves too, `ends` its 95 % interval.
    `chance` is the share that another draw of the base solves too, None where many questions have fewer than 2 k
    samples of the base.
    """

    kept: float
    lost: float
    gained: float
    neither: float
    keep: float
    ends: tuple[float, float]
    chance: float | None

    def beyond(self, margin: float) -> bool:
        """Whether more is exchanged than chance and the margin explain."""
        return self.chance is not None and self.ends[1] < self.chance - margin


@dataclass(frozen=True)
class Hotter:
    """The tuned model at higher temperatures: chosen on one half of the questions, judged on the other, both ways.

    `chosen` are the names of the files or temperatures that the halves choose, `coverage` compares pass@k of the
    judged halves.
    """

    chosen: tuple[str, ...]
    coverage: Compared
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
        exchange: questions kept, lost and gained.
        trainings: difference of pass@k of each of several trainings; empty for one training.
        guesses: pass@k of both models with the right answer of another question; None without classes of answers.
        unanswered: None where the shares do not differ, or are not known.
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
    coverage: Compared
    accuracy: Compared
    explained: float
    rest: Paired
    exchange: Exchange
    trainings: tuple[float, ...] = ()
    guesses: tuple[float, float] | None = None
    unanswered: Unanswered | None = None
    variety: Variety | None = None
    hotter: Hotter | None = None
    corrected: float = 1.0
    more_questions: int | None = None
    more_samples: int | None = None


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
        unanswered: shares of samples without an answer, if they differ.
        variety: of the first kind of classes that the files have.
        by_hand: k was chosen by the user.
    """
    clusters = base.clusters
    solved, after = base.pass_at([k])[:, 0], np.stack([policy.pass_at([k])[:, 0] for policy in trainings])
    right, right_after = base.solve_rates, np.stack([policy.solve_rates for policy in trainings])
    coverage, accuracy = compared(solved, after, clusters), compared(right, right_after, clusters)
    explained, rest = _beyond_accuracy(base, after, right_after, k)
    refusals = ((NOT_FOUND, unanswered is not None), (ONE_SAMPLE, k == 1), (CHOSEN, chosen))
    reasons = [name for name, holds in refusals if holds]
    if coverage.fell and guesses is not None and 2.0 * (guesses[0] - guesses[1]) >= -coverage.value:
        reasons.append(GUESSES)
    if coverage.fell and not chosen and _choice_explains(coverage, base, k):
        reasons.append(CHOSEN)
    refused = bool(reasons)
    if not coverage.base and not coverage.tuned:
        reasons.append(UNSOLVED)
    elif coverage.base < 2.0 * margin:
        reasons.append(TOO_HARD)
    if min(accuracy.base, accuracy.tuned) >= 1.0 - margin:
        reasons.append(CEILING)
    if refused:
        word = CANNOT_TELL
    elif coverage.fell:
        word = COLLAPSED if not accuracy.fell or rest.fell else WORSE
    elif coverage.narrow[0] > -margin and not reasons:
        word = NARROWED if variety is not None and variety.narrowed else NOT_COLLAPSED
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
        _exchange(base, solved, after, k),
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

    SHARPENED: accuracy at the base's temperature is not lost, and pass@k at the temperature chosen on the other half
    of the questions is NOT COLLAPSED by the rule of `decide`, at 95 % too: a choice may not make a loss harmless.

    Args:
        base, drawn: on the same questions; those with k samples everywhere count. Halves are drawn group by group. A
            temperature has a policy for each training of the model.
    """
    enough = np.min([policy.sizes for trainings in drawn.values() for policy in trainings], axis=0) >= diagnosis.k

    def solves(policy: Policy) -> Floats:
        return np.asarray(pass_at_k(policy.sizes[enough], policy.rows["c"].to_numpy()[enough], diagnosis.k))

    solved, clusters = solves(base), None if base.clusters is None else base.clusters[enough]
    tried = [np.stack([solves(policy) for policy in trainings]) for trainings in drawn.values()]
    unit = Questions(np.ones(len(solved)), clusters).unit
    units = int(unit.max()) + 1
    first = np.isin(unit, np.random.default_rng(seed).permutation(units)[: units // 2])
    best = [
        int(np.argmax([solved_there[:, half].mean() for solved_there in tried])) if half.any() else 0
        for half in (~first, first)
    ]
    coverage = compared(solved, np.where(first, tried[best[0]], tried[best[1]]), clusters)
    excluded = min(coverage.narrow[0], coverage.wide[0]) > -diagnosis.margin
    kept = not coverage.fell and excluded and coverage.base >= 2.0 * diagnosis.margin
    answer = Hotter(tuple(list(drawn)[index] for index in best), coverage, kept)
    sharpened = diagnosis.word == COLLAPSED and kept and not diagnosis.accuracy.fell
    return replace(diagnosis, hotter=answer, word=SHARPENED if sharpened else diagnosis.word)


def kinds_of(study: Study) -> list[str]:
    """The kinds of classes of the policies. Where solutions calculate, skeletons replace the equal right answers."""
    kinds = [kind for kind in KINDS if kind != "responses" and study.datasets_with(kind)]
    if "skeletons" in kinds:
        calculated = any((policy.codes("skeletons") > 0).any() for policy in study.policies)
        kinds.remove("answers" if calculated else "skeletons")
    return kinds


def varied(base: Policy, trainings: Sequence[Policy], kind: str) -> Variety | None:
    """The comparison at the largest m of 8, 4 and 2 with at least 30 questions; None where there is none."""
    column = "answers" if kind == "responses" else kind
    counts = [class_counts(policy.codes(column), policy.samples) for policy in (base, *trainings)]
    for m in sorted(SIZES, reverse=True):
        before, *after = (rarefied(of_policy, m) for of_policy in counts)
        common = ~np.isnan(before + sum(after))
        if common.sum() >= FEWEST_PROMPTS:
            clusters = None if base.clusters is None else base.clusters[common]
            difference = compared(before[common], np.stack(after)[:, common], clusters, shares=False)
            bits = [float(np.exp2(entropy(of_policy[common])).mean()) for of_policy in counts]
            return Variety(kind, m, difference, (bits[0], float(np.mean(bits[1:]))))
    return None


def _beyond_accuracy(base: Policy, after: Floats, right: Floats, k: int) -> tuple[float, Paired]:
    """The difference of pass@k that lower accuracy explains, and the rest.

    A thinned base is right theta times as often on every question, theta the ratio of the accuracies. Its pass@k is
    exactly the sum over j of Binomial(k, theta)(j) pass@j of the base. The interval of the rest is by the delta method.

    Args:
        after, right: (trainings, questions), pass@k and solve rates of the tuned model.
    """
    accuracy = float(base.solve_rates.mean())
    theta = float(right.mean()) / accuracy if accuracy else 1.0
    n, c, place = base.counts
    solved = np.hstack(
        [np.zeros((len(n), 1)), np.asarray(pass_at_k(n[:, None], c[:, None], np.arange(1, k + 1)[None]))]
    )
    if theta >= 1.0:
        thinned, slope = solved[:, k][place], 0.0
    else:
        thinned = (solved @ binomial(k, theta))[place]
        slope = float((k * np.diff(solved, axis=1) @ binomial(k - 1, theta))[place].mean())
    moved = slope * (right - theta * base.solve_rates) / accuracy if slope else 0.0
    rest = paired(after - thinned - moved, clusters=base.clusters)
    return float((thinned - solved[:, k][place]).mean()), rest


def _choice_explains(coverage: Compared, base: Policy, k: int) -> bool:
    """Whether no loss is shown beyond the questions that choosing by these samples adds to the base's pass@k.

    If the base's file holds no unsolved question, k further samples would solve some of the questions that were left
    out: minus the sum of (-k / n)^c over the questions of the file, by Good and Toulmin (1956, Biometrika 43, 45-63),
    with the variance sum of (k / n)^2c.
    """
    c = base.rows["c"].to_numpy()
    if not c.all():
        return False
    weights = (k / base.sizes) ** c
    hidden = float((np.where(c % 2, weights, -weights)).sum())
    number = coverage.questions
    half = float(np.hypot(number * (coverage.wide[1] - coverage.value), _NORMAL * np.sqrt((weights**2).sum())))
    return number * coverage.value + hidden + half > 0.0


def _exchange(base: Policy, solved: Floats, after: Floats, k: int) -> Exchange:
    tuned = after.mean(axis=0)
    kept, total = float((solved * tuned).sum()), float(solved.sum())
    keep, ends = np.nan, (0.0, 1.0)
    if total:
        questions = Questions(solved, base.clusters)
        share = estimate(solved * after, questions)
        keep, low, high = share.value, *share.interval(WIDE)
        if not share.error > 0:
            low, high = map(float, wilson(round(keep, 12), total, WIDE))
        ends = (max(low, 0.0), min(high, 1.0))
    return Exchange(
        kept,
        total - kept,
        float(((1.0 - solved) * tuned).sum()),
        float(((1.0 - solved) * (1.0 - tuned)).sum()),
        keep,
        ends,
        _chance(base, k),
    )


def _chance(base: Policy, k: int) -> float | None:
    """Share that another draw of the base keeps, over questions with 2 k samples or more.

    None if too many questions have fewer, or none is solved.
    """
    n, c, place = base.counts
    enough = n >= 2 * k
    if (base.sizes < 2 * k).mean() > LEFT_OUT:
        return None
    once, twice = (np.asarray(pass_at_k(n[enough], c[enough], draws)) for draws in (k, 2 * k))
    weight = np.bincount(place, minlength=len(n))[enough]
    solved = float(weight @ once)
    return float(weight @ (2.0 * once - twice)) / solved if solved else None
