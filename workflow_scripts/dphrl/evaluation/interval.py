"""The interval of a difference: trainings and questions are both samples. One policy has an interval over questions.

    half-width^2 = (t SE of trainings)^2 + (t' SE of questions)^2

The standard error of trainings is that of their means, with Welch's degrees of freedom. That of questions is the
cluster-robust CR2 of the paired difference, with the degrees of freedom of Bell and McCaffrey (2002).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, exp, hypot

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]
LEVEL = 0.05
"""Of tests; intervals have the confidence 1 - LEVEL unless their name says another."""
FEWEST_CLUSTERS = 5
# A permutation test of more ways to divide the trainings is not made: a t interval over so many is good.
_MOST_DIVISIONS = 100_000
_ZERO = 1e-24


class Questions:
    """The questions of a dataset as a sample.

    Args:
        weight: (questions,) or (quantities, questions), 0 for a question that does not count; values are numerators
            over these weights, so that `mean` is a ratio of sums.
        clusters: (questions,) labels, equal for questions that are not independent. Fewer than `FEWEST_CLUSTERS` labels
            do not show how clusters differ. Questions then count as independent, and the variance says nothing about
            other clusters.

    Attributes:
        number: how many questions count for any quantity.
        clusters: how many clusters count; None without labels.
        unit: (questions,), the sampled unit of each question: its own number, or the number of its cluster.
        grouped: whether clusters are the units.
    """

    def __init__(self, weight: Floats, clusters: ArrayLike | None = None) -> None:
        self._weight, self._total = weight, weight.sum(axis=-1, keepdims=True)
        counts = (weight > 0).reshape(-1, weight.shape[-1]).any(axis=0)
        self.number = int(counts.sum())
        self.clusters: int | None = None
        self.grouped = False
        self.unit = np.arange(weight.shape[-1])
        if clusters is not None:
            _, unit = np.unique(np.asarray(clusters), return_inverse=True)
            self.clusters = len(np.unique(unit[counts]))
            if self.clusters >= FEWEST_CLUSTERS:
                self.unit, self.grouped = unit, True
        with np.errstate(invalid="ignore"):
            self._share = self._by_unit(weight) / self._total

    @property
    def units(self) -> int:
        """How many questions, or clusters, are sampled."""
        return int(self._share.shape[-1])

    @property
    def expected(self) -> float:
        """How many questions count, where the weights are chances to count."""
        return float(self._total.sum())

    @property
    def trials(self) -> Floats:
        """(quantities,), how many units count, or the sum of the weights where that is less."""
        return np.minimum(np.count_nonzero(self._share > 0, axis=-1), self._total[..., 0])

    def mean(self, values: Floats) -> Floats:
        """(..., questions) to (...,): the sum of the values over the sum of the weights; NaN without weights."""
        with np.errstate(invalid="ignore"):
            return np.asarray(values.sum(axis=-1) / self._total[..., 0])

    def spread(self, values: Floats) -> tuple[Floats, Floats]:
        """Variance of `mean` over other questions, or other clusters, and its degrees of freedom; NaN for one unit.

        Residuals of a cluster are added and divided by sqrt(1 - h), h the cluster's share of the weights. For
        independent questions of equal weight this is the usual variance with divisor Q - 1.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = self._by_unit((values - self.mean(values)[..., None] * self._weight) / self._total)
            share, inverse = self._share, 1.0 / (1.0 - self._share)
            # The squares' covariances are share_g (g = h) - share_g share_h.
            below = (share**2).sum(-1) + (inverse * share**2).sum(-1) ** 2 - (inverse**2 * share**4).sum(-1)
            return np.asarray((inverse * sums**2).sum(axis=-1)), np.asarray(1.0 / below)

    def _by_unit(self, values: Floats) -> Floats:
        if not self.grouped:
            return values
        sums = np.zeros((int(self.unit.max()) + 1, *values.shape[:-1]))
        np.add.at(sums, self.unit, np.moveaxis(values, -1, 0))
        return np.moveaxis(sums, 0, -1)


@dataclass(frozen=True)
class Part:
    """A standard error with its degrees of freedom; one part of an interval. It is 0 where nothing varies."""

    error: float
    freedom: float

    def half(self, level: float) -> float:
        """Half of the width of a t interval with the confidence 1 - level."""
        return -float(stdtrit(self.freedom, level / 2.0)) * self.error if self.error else 0.0


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of means, with the two parts of its error.

    Attributes:
        trainings: None where no model has several trainings; the interval is then over questions alone.
        questions: NaN of one question, which shows no variance.
    """

    value: float
    trainings: Part | None
    questions: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that were measured."""
        return (self.questions,) if self.trainings is None else (self.trainings, self.questions)

    @property
    def error(self) -> float:
        """The standard error; 0 where nothing varies."""
        return hypot(*(part.error for part in self.parts))

    def half(self, level: float = LEVEL) -> float:
        """Half of the width of the interval with the confidence 1 - level."""
        return hypot(*(part.half(level) for part in self.parts))

    def interval(self, confidence: float) -> tuple[float, float]:
        """The interval; NaN where nothing varies."""
        half = self.half(1.0 - confidence) if self.error else float("nan")
        return self.value - half, self.value + half

    @property
    def p(self) -> float:
        """p of the two-sided test against 0: the level at which the interval ends at 0; NaN where nothing varies."""
        return self.level_of(abs(self.value))

    def level_of(self, distance: float) -> float:
        """The level at which half of the width is `distance`, by bisection of its logarithm."""
        if not self.error > 0:
            return float("nan")
        low, high = -600.0, 0.0
        while high - low > 1e-12:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.half(exp(middle)) > distance else (low, middle)
        return exp(high)

    def detectable(self, level: float) -> float:
        """The smallest difference that a two-sided test at `level` finds in 80 % of cases."""
        return self.half(level) + self.half(0.4)

    def with_more(self, trainings: float = 1.0, questions: float = 1.0) -> "Estimate":
        """The estimate of a study with so many times the trainings and questions."""
        over_trainings, over_questions = (
            None if part is None else Part(part.error / np.sqrt(factor), part.freedom * factor)
            for part, factor in ((self.trainings, trainings), (self.questions, questions))
        )
        return Estimate(self.value, over_trainings, over_questions or self.questions)


def estimate(rows: Floats, questions: Questions) -> Estimate:
    """The mean of (trainings, questions) numerators."""
    return difference([rows], [np.zeros((1, rows.shape[1]))], [questions])


def difference(ours: Sequence[Floats], theirs: Sequence[Floats], questions: Sequence[Questions]) -> Estimate:
    """The mean of ours - theirs; questions are paired, trainings are not.

    Args:
        ours, theirs: for each dataset (trainings, questions) numerators, with one row for a model that is no training.
        questions: of each dataset. Datasets weigh alike; the degrees of freedom are the smallest of theirs.
    """
    means = [training_means(rows, questions) for rows in (ours, theirs)]
    gaps = [a.mean(axis=0) - b.mean(axis=0) for a, b in zip(ours, theirs, strict=True)]
    spreads = [sample.spread(gap) for sample, gap in zip(questions, gaps, strict=True)]
    variance = float(sum(variance for variance, _ in spreads)) / len(spreads) ** 2
    over_questions = Part(_root(variance), float(min(freedom for _, freedom in spreads)))
    return Estimate(float(means[0].mean() - means[1].mean()), over_trainings(*means), over_questions)


def of_draws(ours: Floats, theirs: Floats, questions: Questions) -> Estimate:
    """The mean of ours - theirs, for values that are no mean over questions.

    Args:
        ours, theirs: (trainings, 1 + draws), values on the questions that were measured, then on questions drawn again.
            The standard deviation over draws is the error of questions. Questions are paired, trainings are not.
    """
    gaps = ours.mean(axis=0) - theirs.mean(axis=0)
    over_questions = Part(float(gaps[1:].std(ddof=1)), questions.units - 1.0)
    return Estimate(float(gaps[0]), over_trainings(ours[:, 0], theirs[:, 0]), over_questions)


def training_means(rows: Sequence[Floats], questions: Sequence[Questions]) -> Floats:
    """(trainings,), the mean of each over the datasets."""
    means = [sample.mean(values) for sample, values in zip(questions, rows, strict=True)]
    return np.asarray(np.mean(means, axis=0))


def over_trainings(*means: Floats) -> Part | None:
    """The error of a difference of two means over trainings, with Welch's degrees of freedom; None without several.

    Args:
        means: of the trainings of each model, (trainings,). A single row adds nothing.
    """
    spreads = [(float(each.var(ddof=1)) / len(each), len(each) - 1.0) for each in means if len(each) > 1]
    if not spreads:
        return None
    variance = sum(variance for variance, _ in spreads)
    below = sum(variance**2 / freedom for variance, freedom in spreads)
    return Part(_root(variance), variance**2 / below if below else float("nan"))


def _root(variance: float) -> float:
    # Equal values differ in their last bits.
    return 0.0 if variance <= _ZERO else float(np.sqrt(variance))


def permutation_p(ours: Floats, theirs: Floats) -> float:
    """p of the exact two-sided permutation test over trainings.

    The share of ways to divide all trainings in which the means differ by as much or more. No interval with equal arms
    is right for trainings with a heavy tail; this test assumes nothing of their distribution.

    Args:
        ours, theirs: means of trainings, (trainings,) each.

    Returns:
        NaN where a method has one training, or there are more than 100,000 ways.
    """
    pooled, size = np.concatenate([ours, theirs]), len(ours)
    if min(size, len(theirs)) < 2 or comb(len(pooled), size) > _MOST_DIVISIONS:
        return float("nan")
    sums = pooled[_divisions(len(pooled), size)].sum(axis=1)
    gaps = np.abs(sums / size - (pooled.sum() - sums) / len(theirs))
    return float((gaps >= abs(ours.mean() - theirs.mean()) - 1e-12).mean())


@lru_cache(maxsize=8)
def _divisions(number: int, size: int) -> NDArray[np.int64]:
    """All choices of `size` of the numbers below `number`, a row for each."""
    return np.array(list(combinations(range(number), size)))


def ratio(
    numerator: Floats, denominator: Floats | None = None, clusters: ArrayLike | None = None, proportion: bool = True
) -> tuple[Floats, Floats, Floats]:
    """Ratios of two sums over questions, with their t intervals.

    Where the t interval of a proportion reaches 0 or 1, Wilson's interval stands, for as many trials as units count.

    Args:
        numerator: (questions, quantities).
        denominator: the same, or (questions, 1); None for 1 each: the ratio is the mean.
        clusters: (questions,) labels.
        proportion: whether the ratios lie in [0, 1].

    Returns:
        value, low, high, each (quantities,); NaN where the denominator is 0.
    """
    values = numerator.T
    questions = Questions(np.ones(len(numerator)) if denominator is None else denominator.T, clusters)
    value, (variance, freedom) = questions.mean(values), questions.spread(values)
    with np.errstate(invalid="ignore"):
        half = np.where(variance <= _ZERO, 0.0, -stdtrit(freedom, LEVEL / 2.0) * np.sqrt(variance))
    low, high = value - half, value + half
    if proportion:
        trials = np.broadcast_to(questions.trials, value.shape)
        near = (trials > 0) & ~((low > 0) & (high < 1))
        low[near], high[near] = wilson(value[near], trials[near], 1.0 - LEVEL)
    return value, low, high


def wilson(share: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share seen in independent trials (Wilson 1927)."""
    share, trials, z = np.asarray(share, dtype=float), np.asarray(trials, dtype=float), ndtri(0.5 + confidence / 2.0)
    centre = share + z * z / (2 * trials)
    half = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At 0 or 1 the bound is the end itself, but for the last bits. Adding 0 turns -0 into 0.
    ends = np.round(np.stack([centre - half, centre + half]) / (1 + z * z / trials), 12).clip(0.0, 1.0) + 0.0
    return ends[0], ends[1]


def sizes_needed(
    measured: Estimate, seeds: int, questions: int, margin: float, level: float
) -> tuple[int | None, int | None]:
    """The seeds with these questions, and the questions with these seeds, that make `margin` detectable.

    Args:
        measured: the estimate with `seeds` and `questions`, from which the search goes up to 100 times as many.
        margin, level: of `Estimate.detectable`.

    Returns:
        Each the smallest number, None where none is enough.
    """

    def first(numbers: Sequence[int], name: str, now: int) -> int | None:
        enough = (n for n in numbers if measured.with_more(**{name: n / now}).detectable(level) <= margin)
        return next(enough, None)

    more = np.unique(np.geomspace(questions, 100 * questions, 500).round().astype(int)).tolist()
    return first(range(seeds, 100 * seeds + 1), "trainings", seeds), first(more, "questions", questions)


def holm(p: ArrayLike) -> Floats:
    """p values of one family after Holm's correction (Holm 1979): they bound the chance of any false finding.

    Args:
        p: (tests,) in [0, 1]; NaN, which is not a test, stays NaN.

    Returns:
        (tests,) float64, never less than `p`, at most 1.
    """
    uncorrected = np.asarray(p, dtype=np.float64)
    order = np.argsort(uncorrected)[: np.count_nonzero(~np.isnan(uncorrected))]
    corrected = np.full_like(uncorrected, np.nan)
    scaled = uncorrected[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected
