"""A tuned model against its base: the mean difference over questions and trainings, and the sizes that would tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, xlog1py, xlogy

from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.interval import LEVEL, Estimate, Floats, Part, Questions, estimate, sizes_needed
from dphrl.evaluation.study import Policy

WIDE, NARROW = 1.0 - LEVEL, 1.0 - 2.0 * LEVEL
# `needed` tries at most so many times the samples of a question.
_MOST_FACTOR = 64


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two models over their questions, tuned - base, with its intervals.

    Attributes:
        value: the difference, in the unit of the values.
        base, tuned: the means of both models.
        wide, narrow: the 95 % and the 90 % interval of the difference.
        measured: the difference with the two parts of its error.
        questions: how many.
        groups: how many groups of questions, where the intervals are over groups.
    """

    value: float
    base: float
    tuned: float
    wide: tuple[float, float]
    narrow: tuple[float, float]
    measured: Estimate
    questions: int
    groups: int | None

    @property
    def fell(self) -> bool:
        """Whether the 95 % interval is wholly below 0."""
        return self.wide[1] < 0

    @property
    def p(self) -> float:
        """p of the two-sided test against 0."""
        return self.measured.p if self.measured.error > 0 else float(not self.fell)


def paired_difference(
    base: Floats, tuned: Floats, clusters: ArrayLike | None = None, shares: bool = True
) -> PairedDifference:
    """The comparison of a base and a tuned model.

    Args:
        base, tuned: (questions,) values of the base, (questions,) or (trainings, questions) of the tuned model.
        clusters: (questions,) groups; None: questions are independent.
        shares: values are shares, so ends are within -1 and 1. Questions of a kind not seen may then make up a share of
            up to u = 1 - a^(1/Q), with the one-sided confidence 1 - a. If no question is lower, the lower ends are at
            most -u. If all differences are equal, both ends include such a share at its extremes, -1 and 1. The lower
            90 % end is never above the end with two pseudo-questions of -1 and +1 (groups of the mean size).
    """
    rows = np.atleast_2d(tuned - base)
    questions = Questions(np.ones(rows.shape[1]), clusters)
    measured = estimate(rows, questions)

    def ends(confidence: float) -> tuple[float, float]:
        unseen = 1.0 - (0.5 - confidence / 2.0) ** (1.0 / questions.units) if shares else 0.0
        if not measured.error > 0:
            return (1.0 - unseen) * measured.value - unseen, (1.0 - unseen) * measured.value + unseen
        low, high = measured.interval(confidence)
        return low if not shares or (rows.mean(axis=0) < 0).any() else min(low, -unseen), high

    (low, high), wide = ends(NARROW), ends(WIDE)
    narrow = low, high
    if shares:
        # Two pseudo-questions, or pseudo-groups, of -1 and +1.
        pseudo = np.repeat([-1.0, 1.0], max(1, round(rows.shape[1] / questions.units)))
        labels = np.concatenate([questions.unit, questions.unit.max() + 1 + (pseudo > 0)])
        extended = np.hstack([rows, np.tile(pseudo, (len(rows), 1))])
        doubted = estimate(extended, Questions(np.ones(extended.shape[1]), labels)).interval(NARROW)[0]
        narrow = max(min(low, doubted), -1.0), min(high, 1.0)
        wide = max(wide[0], -1.0), min(wide[1], 1.0)
    groups = questions.clusters if questions.grouped else None
    means = float(base.mean()), float(tuned.mean())
    return PairedDifference(measured.value, *means, wide, narrow, measured, rows.shape[1], groups)


def needed(
    base: Policy, trainings: Sequence[Policy], difference: PairedDifference, k: int, margin: float
) -> tuple[int | None, int | None]:
    """Questions with these samples, and samples of these questions, that find a loss of `margin` in 80 % of cases."""
    number = difference.groups or difference.questions
    # Fewer cannot exclude such a loss even if nothing differs.
    fewest = int(np.ceil(np.log(LEVEL) / np.log1p(-margin))) if margin < 1 else 1
    _, units = sizes_needed(difference.measured, 1, number, margin, LEVEL)
    questions = None if units is None else max(round(units * difference.questions / number), fewest)
    if difference.groups or len(trainings) > 1:
        return questions, None
    policies = (base, trainings[0])
    between = max(difference.measured.error**2 * number - sum(_within(policy, k, 1) for policy in policies), 0.0)
    factor = 2
    while factor <= _MOST_FACTOR and number >= fewest:
        variance = between + sum(_within(policy, k, factor) for policy in policies)
        over_questions = Part(float(np.sqrt(variance / number)), number - 1.0)
        if Estimate(0.0, None, over_questions).detectable(LEVEL) <= margin:
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
    *pairs, place = policy.pairs
    variances = []
    for n, c in zip(*(numbers.tolist() for numbers in pairs), strict=True):
        chance = binomial(factor * n, (c + 0.5) / (n + 1))
        solved = np.asarray(pass_at_k(factor * n, np.arange(factor * n + 1), k))
        variances.append(chance @ solved**2 - (chance @ solved) ** 2)
    return float(np.array(variances)[place].mean())
