"""Mean differences over questions, or groups of questions, and over trainings, each with its intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, xlog1py, xlogy

from dphrl.evaluation.crossed import Crossed, Estimate, Floats, Questions, detectable, sizes_needed
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.study import Policy

WIDE, NARROW = 0.95, 0.90
LEVEL = 1.0 - WIDE
# `needed` tries at most so many times the samples of a question.
_MOST_FACTOR = 64
_ZERO = 1e-24


@dataclass(frozen=True)
class Paired:
    """A mean difference over questions, tuned - base, with its intervals.

    Attributes:
        value: in the unit of the values.
        wide, narrow: the 95 % and the 90 % interval.
        error, freedom: standard error, 0 where nothing varies, and its degrees of freedom.
        questions: how many.
        groups: how many groups of questions, where the intervals are over groups.
    """

    value: float
    wide: tuple[float, float]
    narrow: tuple[float, float]
    error: float
    freedom: float
    questions: int
    groups: int | None = None

    @property
    def fell(self) -> bool:
        """Whether the 95 % interval is wholly below 0."""
        return self.wide[1] < 0

    @property
    def p(self) -> float:
        """p of the two-sided t test against 0."""
        return Estimate(self.value, self.error, self.freedom).p if self.error else float(not self.fell)


@dataclass(frozen=True)
class Compared(Paired):
    """A `Paired` with the means of both models."""

    base: float = field(kw_only=True)
    tuned: float = field(kw_only=True)


def paired(values: Floats, shares: bool = False, clusters: ArrayLike | None = None) -> Paired:
    """The mean of differences, (questions,) or (trainings, questions), with t intervals.

    Args:
        shares: values are differences of shares, so ends are within -1 and 1. Questions of a kind not seen may then
            make up a share of up to u = 1 - a^(1/Q), with the one-sided confidence 1 - a. If no question is lower, the
            lower ends are at most -u. If all differences are equal, both ends include such a share at its extremes, -1
            and 1. The lower 90 % end is never above the end with two pseudo-questions of -1 and +1 (groups of the mean
            size).
        clusters: (questions,) groups; None: questions are independent.
    """
    rows = np.atleast_2d(values)
    questions = Questions(np.ones(rows.shape[1]), clusters)
    mean = estimate(rows, questions)

    def ends(confidence: float) -> tuple[float, float]:
        unseen = 1.0 - (0.5 - confidence / 2.0) ** (1.0 / questions.units) if shares else 0.0
        if not mean.error:
            return (1.0 - unseen) * mean.value - unseen, (1.0 - unseen) * mean.value + unseen
        low, high = mean.interval(confidence)
        return low if not shares or (rows.mean(axis=0) < 0).any() else min(low, -unseen), high

    (low, high), wide = ends(NARROW), ends(WIDE)
    narrow = low, high
    if shares:
        narrow = max(min(low, _doubted(rows, questions)), -1.0), min(high, 1.0)
        wide = max(wide[0], -1.0), min(wide[1], 1.0)
    groups = questions.clusters if questions.grouped else None
    return Paired(mean.value, wide, narrow, mean.error, mean.freedom, rows.shape[1], groups)


def estimate(rows: Floats, questions: Questions) -> Estimate:
    """The mean of (trainings, questions) numerators over the weights of the questions; error 0 where nothing varies."""
    if len(rows) == 1:
        part = questions.variance(rows[0])
        error = float(np.sqrt(part.variance)) if part.variance > _ZERO else 0.0
        return Estimate(float(questions.mean(rows[0])), error, part.freedom)
    crossed = Crossed({"tuned": [rows], "none": [np.zeros_like(rows[:1])]}, [questions], ("none",))
    difference = crossed.difference("tuned", "none")
    return Estimate(difference.value, difference.error if difference.error > 0 else 0.0, difference.freedom)


def _doubted(rows: Floats, questions: Questions) -> float:
    """The lower 90 % end with two pseudo-questions, or pseudo-groups, of -1 and +1."""
    size = max(1, round(rows.shape[1] / questions.units))
    pseudo = np.repeat([-1.0, 1.0], size)
    labels = np.concatenate([questions.unit, questions.unit.max() + 1 + (pseudo > 0)])
    extended = np.hstack([rows, np.tile(pseudo, (len(rows), 1))])
    return estimate(extended, Questions(np.ones(extended.shape[1]), labels)).interval(NARROW)[0]


def compared(base: Floats, tuned: Floats, clusters: ArrayLike | None = None, shares: bool = True) -> Compared:
    """(questions,) values of the base and (trainings, questions) of a tuned model."""
    difference = paired(tuned - base, shares, clusters)
    return Compared(**vars(difference), base=float(base.mean()), tuned=float(tuned.mean()))


def needed(
    base: Policy, trainings: Sequence[Policy], difference: Paired, k: int, margin: float
) -> tuple[int | None, int | None]:
    """Questions with these samples, and samples of these questions, that find a loss of `margin` in 80 % of cases."""
    number = difference.groups or difference.questions
    # Fewer cannot exclude such a loss even if nothing differs.
    fewest = int(np.ceil(np.log(0.5 - NARROW / 2.0) / np.log1p(-margin))) if margin < 1 else 1
    of_questions, of_trainings, freedom = difference.error**2 * number, 0.0, max(number - 1.0, 1.0)
    if len(trainings) > 1:
        # More questions do not change the chance of trainings.
        gains = np.mean([policy.pass_at([k])[:, 0] for policy in trainings], axis=0) - base.pass_at([k])[:, 0]
        over = np.nan_to_num(Questions(np.ones(len(gains)), base.clusters).variance(gains).variance)
        of_questions, of_trainings = over * number, max(difference.error**2 - over, 0.0)
        freedom = difference.freedom if of_trainings else freedom
    _, units = sizes_needed((of_trainings, of_questions, 0.0), freedom, 1, number, margin, LEVEL)
    questions = None if units is None else max(round(units * difference.questions / number), fewest)
    if difference.groups or len(trainings) > 1:
        return questions, None
    policies = (base, trainings[0])
    between = max(of_questions - sum(_within(policy, k, 1) for policy in policies), 0.0)
    factor = 2
    while factor <= _MOST_FACTOR and number >= fewest:
        variance = between + sum(_within(policy, k, factor) for policy in policies)
        if detectable(float(np.sqrt(variance / number)), number - 1.0, LEVEL) <= margin:
            return questions, factor * min(policy.n for policy in policies)
        factor *= 2
    return questions, None


def binomial(k: int, theta: float) -> Floats:
    """(k + 1,), the chances of 0 .. k successes."""
    j = np.arange(k + 1)
    logarithm = xlogy(j, theta) + xlog1py(k - j, -theta) - betaln(j + 1, k - j + 1) - np.log(k + 1.0)
    return np.asarray(np.exp(logarithm))


def _within(policy: Policy, k: int, factor: int) -> float:
    """The mean variance of the estimate of pass@k between draws of the samples of a question, at `factor` as many.

    The solve rate of a question is taken as (c + 1/2) / (n + 1).
    """
    *pairs, place = policy.counts
    variances = np.array([_variance(int(n), int(c), k, factor) for n, c in zip(*pairs, strict=True)])
    return float(variances[place].mean())


@lru_cache(maxsize=4096)
def _variance(n: int, c: int, k: int, factor: int) -> float:
    right = np.arange(factor * n + 1)
    chance = binomial(factor * n, (c + 0.5) / (n + 1))
    estimate = np.asarray(pass_at_k(factor * n, right, k))
    return float(chance @ estimate**2 - (chance @ estimate) ** 2)
