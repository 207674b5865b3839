"""The verdict: whether pass@K of a tuned model is below the base's, with one interval over questions."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dphrl.evaluation.crossed import Estimate, Floats, Questions, detectable, sizes_needed
from dphrl.evaluation.estimator import class_counts, pass_at_k, rarefied
from dphrl.evaluation.rarefied import FEWEST_PROMPTS, SIZES
from dphrl.evaluation.study import Policy

COLLAPSED, NOT_COLLAPSED, CANNOT_TELL = "COLLAPSED", "NOT COLLAPSED", "CANNOT TELL"
EXIT = {NOT_COLLAPSED: 0, COLLAPSED: 3, CANNOT_TELL: 4}
_WIDE, _NARROW = 0.95, 0.90
# So many times the samples of a question are tried at most.
_MOST_FACTOR = 64


@dataclass(frozen=True)
class Paired:
    """A mean difference over questions, tuned - base, with its intervals.

    Attributes:
        value: in the unit of what was compared.
        wide, narrow: the 95 % and the 90 % interval.
        error: standard error; 0 where nothing varies.
        questions: how many.
    """

    value: float
    wide: tuple[float, float]
    narrow: tuple[float, float]
    error: float
    questions: int


@dataclass(frozen=True)
class Verdict:
    """Whether a tuned model lost coverage.

    Attributes:
        policy: its name.
        word: COLLAPSED, NOT COLLAPSED or CANNOT TELL.
        k, margin: of the verdict; the margin is a share (0.05 for 5 points).
        base, tuned: pass@k of both, means over the questions.
        difference: of the two.
        more_questions, more_samples: what would tell, of a verdict that cannot; None where not even 100 times as many
            questions, or 64 times as many samples of each, would.
    """

    policy: str
    word: str
    k: int
    margin: float
    base: float
    tuned: float
    difference: Paired
    more_questions: int | None = None
    more_samples: int | None = None


def paired(values: Floats, shares: bool = False) -> Paired:
    """The mean of (questions,) differences with t intervals over questions.

    Args:
        shares: values are differences of shares. Questions unlike those that were seen may then be a share of up to
            u = 1 - a^(1/Q), with the one-sided confidence 1 - a. If no question is lower, the lower ends are at most
            -u; if all differences are equal, both ends are those of a mean over such a share at its extremes, -1 and 1.
    """
    questions = Questions(np.ones(len(values)))
    part, value = questions.variance(values), float(questions.mean(values))
    error = float(np.sqrt(part.variance)) if part.variance > 1e-24 else 0.0

    def ends(confidence: float) -> tuple[float, float]:
        unseen = 1.0 - (0.5 - confidence / 2.0) ** (1.0 / len(values)) if shares else 0.0
        if not error:
            return (1.0 - unseen) * value - unseen, (1.0 - unseen) * value + unseen
        low, high = Estimate(value, error, part.freedom).interval(confidence)
        return low if not shares or (values < 0).any() else min(low, -unseen), high

    return Paired(value, ends(_WIDE), ends(_NARROW), error, len(values))


def decide(base: Policy, tuned: Policy, k: int, margin: float) -> Verdict:
    """The verdict on pass@k of a tuned model against the base, on the same questions.

    COLLAPSED: the whole 95 % interval of the difference is below 0. Else NOT COLLAPSED: its 90 % interval is above
    -margin. Else CANNOT TELL.
    """
    before, after = base.pass_at([k])[:, 0], tuned.pass_at([k])[:, 0]
    found = paired(after - before, shares=True)
    word = COLLAPSED if found.wide[1] < 0 else NOT_COLLAPSED if found.narrow[0] > -margin else CANNOT_TELL
    more = _needed(base, tuned, found, k, margin) if word == CANNOT_TELL else (None, None)
    return Verdict(tuned.key.method, word, k, margin, float(before.mean()), float(after.mean()), found, *more)


def _needed(base: Policy, tuned: Policy, found: Paired, k: int, margin: float) -> tuple[int | None, int | None]:
    """Questions with these samples, and samples of these questions, that find a loss of `margin` in 80 % of cases."""
    number, level = found.questions, 1.0 - _WIDE
    # Fewer cannot exclude such a loss even if nothing differs.
    fewest = int(np.ceil(np.log(0.5 - _NARROW / 2.0) / np.log1p(-margin))) if margin < 1 else 1
    of_questions = found.error**2 * number
    _, questions = sizes_needed((0.0, of_questions, 0.0), max(number - 1.0, 1.0), 1, number, margin, level)
    if questions is not None:
        questions = max(questions, fewest)
    within = [_within(policy, k, 1) for policy in (base, tuned)]
    between = max(of_questions - sum(within), 0.0)
    factor = 2
    while factor <= _MOST_FACTOR and number >= fewest:
        variance = between + sum(_within(policy, k, factor) for policy in (base, tuned))
        if detectable(float(np.sqrt(variance / number)), number - 1.0, level) <= margin:
            return questions, factor * min(base.n, tuned.n)
        factor *= 2
    return questions, None


def _within(policy: Policy, k: int, factor: int) -> float:
    """The mean variance of the estimate of pass@k between draws of the samples of a question, at `factor` as many.

    The solve rate of a question is taken as (c + 1/2) / (n + 1).
    """
    *pairs, place = policy.counts
    variances = np.array([_variance(int(n), int(c), k, factor) for n, c in zip(*pairs, strict=True)])
    return float(variances[place].mean())


@lru_cache(maxsize=4096)
def _variance(n: int, c: int, k: int, factor: int) -> float:
    # Slow to import, and needed where a verdict cannot tell only.
    from scipy.stats import binom

    right = np.arange(factor * n + 1)
    chance = binom.pmf(right, factor * n, (c + 0.5) / (n + 1))
    estimate = np.asarray(pass_at_k(factor * n, right, k))
    return float(chance @ estimate**2 - (chance @ estimate) ** 2)


KINDS = {"programs": "programs", "styles": "styles", "skeletons": "ways of calculating", "answers": "answers"}
"""Kinds of classes in the order in which the first that there is is reported, with the words for them."""


@dataclass(frozen=True)
class Variety:
    """Different classes among m right answers, over the questions of which both models have m.

    Attributes:
        kind: a key of `KINDS`.
        m: right answers.
        base, tuned: the expected numbers of classes among them, means over questions.
        difference: of the two, per question.
    """

    kind: str
    m: int
    base: float
    tuned: float
    difference: Paired


def variety(base: Policy, tuned: Policy, kind: str) -> Variety | None:
    """The comparison at the largest m of 8, 4 and 2 with at least 30 questions; None where there is none."""
    counts = [class_counts(policy.codes(kind), policy.samples) for policy in (base, tuned)]
    for m in sorted(SIZES, reverse=True):
        before, after = (rarefied(one, m) for one in counts)
        common = ~np.isnan(before + after)
        if common.sum() >= FEWEST_PROMPTS:
            difference = paired(after[common] - before[common])
            return Variety(kind, m, float(before[common].mean()), float(after[common].mean()), difference)
    return None
