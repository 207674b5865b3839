"""Differences of two methods with one interval: training seeds and questions are both samples (crossed random effects).

With S seeds and Q questions, seeds nested in methods and questions shared by them, the variance of a difference is

    v_seed / S + v_question / Q + v_both / (S Q)

Its parts are estimated by mean squares, the degrees of freedom by Satterthwaite (1946), as in Hillis (2007) for readers
and cases. Questions in clusters, such as those on one database, have the cluster-robust variance CR2 with the degrees
of freedom of Bell and McCaffrey (2002).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
FEWEST_CLUSTERS = 5
# Level of Bartlett's test of equal seed variances over methods. At a laxer level, methods whose variance is
# underestimated by chance are judged alone more often: false findings rise above 5 % (docs/decisions/one-interval.md).
_EQUAL_VARIANCES = 0.05
_ZERO = 1e-24


@dataclass(frozen=True)
class Part:
    """An estimated variance with its degrees of freedom."""

    variance: float
    freedom: float


class Questions:
    """The questions of a dataset as a sample.

    Args:
        weight: (questions,), 0 for a question that does not count; values are numerators over these weights, so that
            `mean` is a ratio of sums.
        clusters: (questions,) labels, equal for questions that are not independent. Fewer than `FEWEST_CLUSTERS` labels
            do not show how clusters differ. Questions then count as independent, and the variance says nothing about
            other clusters.

    Attributes:
        number: how many questions count.
        clusters: how many clusters count; None without labels.
        unit: (questions,), the sampled unit of each question: its own number, or the number of its cluster.
        grouped: whether clusters are the units.
    """

    def __init__(self, weight: Floats, clusters: ArrayLike | None = None) -> None:
        self._total = float(weight.sum())
        self._weight = weight
        self.number = int(np.count_nonzero(weight))
        self.clusters: int | None = None
        self.grouped = False
        self.unit = np.arange(len(weight))
        if clusters is not None:
            _, unit = np.unique(np.asarray(clusters), return_inverse=True)
            self.clusters = len(np.unique(unit[weight > 0]))
            if self.clusters >= FEWEST_CLUSTERS:
                self.unit, self.grouped = unit, True
        self._share = np.bincount(self.unit, weight) / self._total

    @property
    def units(self) -> int:
        """How many questions, or clusters, are sampled."""
        return int(self._share.size)

    def mean(self, values: Floats) -> Floats:
        """(..., questions) to (...,): the sum of the values over the sum of the weights."""
        return np.asarray(values.sum(axis=-1) / self._total)

    def variance(self, values: Floats) -> Part:
        """The variance of `mean` over other questions, or other clusters, of (questions,) values.

        Residuals of a cluster are added and divided by sqrt(1 - h), h the cluster's share of the weights. For
        independent questions of equal weight this is the usual variance with divisor Q - 1.
        """
        residual = (values - self.mean(values) * self._weight) / self._total
        sums = np.bincount(self.unit, residual)[self._share > 0]
        share = self._share[self._share > 0]
        if len(share) < 2:
            return Part(np.nan, np.nan)
        inverse = 1.0 / (1.0 - share)
        # Satterthwaite's freedom of the weighted squares, whose covariances are share_g (g = h) - share_g share_h.
        spread = (share**2).sum() + (inverse * share**2).sum() ** 2 - (inverse**2 * share**4).sum()
        return Part(float((inverse * sums**2).sum()), float(1.0 / spread))


@dataclass(frozen=True)
class SeedSpread:
    """How the mean over questions varies between the trainings of a method.

    Attributes:
        component: the variance that other questions would show too, v_seed of one method; not below 0.
        mean_square: the variance of the means of the seeds, over these questions.
        freedom: of `mean_square`.
        pooled: whether `mean_square` is over all methods together.
    """

    component: float
    mean_square: float
    freedom: float
    pooled: bool


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, which is NaN where nothing varies, and the degrees of freedom of the error."""

    value: float
    error: float
    freedom: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """The t interval; NaN where nothing varies."""
        half = float(stdtrit(self.freedom, 0.5 + confidence / 2.0)) * self.error
        return self.value - half, self.value + half

    @property
    def p(self) -> float:
        """p of the two-sided t test against 0."""
        return 2.0 * float(stdtr(self.freedom, -abs(self.value) / self.error)) if self.error > 0 else float("nan")


@dataclass(frozen=True)
class Difference(Estimate):
    """A difference of two methods, ours - theirs.

    Attributes:
        seeds: numbers of seeds of our method and of theirs; 0 for a policy without trainings, such as the base.
        of_seeds, of_questions, of_both: v_seed, v_question and v_both of one seed and one question. `of_seeds` is NaN
            where no method was trained with two seeds; `error` is then over questions alone. One question shows no
            variance over questions: `error` is then NaN, and so are all three if a method was trained with two seeds.
    """

    seeds: tuple[int, int]
    of_seeds: float
    of_questions: float
    of_both: float


def seed_spreads(means: Mapping[str, Floats], questions: Mapping[str, float]) -> dict[str, SeedSpread]:
    """How trainings vary, by method: pooled over the methods unless Bartlett's test says that their variances differ.

    Args:
        means: of each training, (seeds,) by method; a method with one seed gets the pooled spread only.
        questions: by method, the part of the variance of `means` that is due to the questions (v_both / Q).

    Returns:
        Spreads by method; nothing where no method was trained with two seeds.
    """
    several = {method: values for method, values in means.items() if len(values) > 1}
    freedoms = {method: len(values) - 1.0 for method, values in several.items()}
    squares = {method: float(values.var(ddof=1)) for method, values in several.items()}
    total = sum(freedoms.values())
    if not total:
        return {}

    def weighted(values: Mapping[str, float]) -> float:
        return sum(freedoms[method] * values[method] for method in several) / total

    if _alike(list(several.values())):
        square = weighted(squares)
        spread = SeedSpread(max(square - weighted(questions), 0.0), square, total, pooled=True)
        return dict.fromkeys(means, spread)
    return {
        method: SeedSpread(max(square - questions[method], 0.0), square, freedoms[method], pooled=False)
        for method, square in squares.items()
    }


def _alike(groups: Sequence[Floats]) -> bool:
    """Whether the variances of the groups may be the same."""
    # Slow to import, and not needed for questions alone.
    from scipy.stats import bartlett

    varied = [bool(group.var() > _ZERO) for group in groups]
    if len(groups) < 2 or not any(varied):
        return True
    return all(varied) and bool(bartlett(*groups).pvalue >= _EQUAL_VARIANCES)


class Crossed:
    """All methods under one metric, on the questions of a dataset, or on several datasets that weigh alike.

    Args:
        values: by method, for each dataset (seeds, questions); numerators over the weights of the questions.
        questions: of each dataset.
        untrained: methods with one row that is no training, such as the base.
    """

    def __init__(
        self, values: Mapping[str, Sequence[Floats]], questions: Sequence[Questions], untrained: Sequence[str]
    ) -> None:
        self._values, self._questions = values, questions
        self.number = sum(sample.number for sample in questions)
        self._means = {method: self._mean(rows) for method, rows in values.items()}
        self._both = {method: self._seeds_by_questions(rows) for method, rows in values.items()}
        trained = {method: means for method, means in self._means.items() if method not in untrained}
        self._spreads = seed_spreads(trained, self._both)
        self._untrained = untrained

    @property
    def clusters(self) -> int | None:
        """How many clusters the questions are in; None if any dataset is without clusters."""
        counted = [sample.clusters for sample in self._questions]
        return None if None in counted else sum(number for number in counted if number is not None)

    @property
    def methods(self) -> list[str]:
        """The methods in the order that they were given."""
        return list(self._values)

    def difference(self, method: str, against: str) -> Difference:
        """method - against. Methods have different seeds, whose numbers do not pair them."""
        pair = [name for name in (method, against) if name not in self._untrained]
        seeds = {name: len(self._means[name]) for name in pair}
        value = float(self._means[method].mean() - self._means[against].mean())
        rows = zip(self._values[method], self._values[against], self._questions, strict=True)
        over_questions = mean_of([q.variance(a.mean(axis=0) - b.mean(axis=0)) for a, b, q in rows])
        have_spreads = all(name in self._spreads for name in pair)
        both = sum(self._both[name] / seeds[name] for name in pair)
        component, squares = 0.0, []
        if have_spreads:
            spreads = {name: self._spreads[name] for name in pair}
            component = sum(spread.component / seeds[name] for name, spread in spreads.items())
            squares = [Part(spread.mean_square / seeds[name], spread.freedom) for name, spread in spreads.items()]
            if len(squares) == 2 and spreads[pair[0]].pooled:
                squares = [Part(squares[0].variance + squares[1].variance, squares[0].freedom)]
        variance = over_questions.variance + component
        # Questions that all differ by the same amount have no variance, and no degrees of freedom.
        parts = [] if component > 0 and over_questions.variance <= _ZERO else [over_questions]
        parts += squares if component > 0 else []
        of_questions = max(over_questions.variance - both, 0.0) * self.number
        return Difference(
            value=value,
            error=float(np.sqrt(variance)) if variance > _ZERO else float("nan"),
            # Where a component was cut at 0, Satterthwaite's number can fall far below the freedom of each part.
            freedom=max(_satterthwaite(variance, parts), min(part.freedom for part in parts)),
            seeds=(seeds.get(method, 0), seeds.get(against, 0)),
            of_seeds=sum(self._spreads[name].component for name in pair) if have_spreads else float("nan"),
            of_questions=of_questions,
            of_both=sum(self._both[name] for name in pair) * self.number,
        )

    def trainings(self, method: str, against: str) -> list[float]:
        """The difference of each training of a method to the mean of the other."""
        return (self._means[method] - self._means[against].mean()).tolist()

    def _mean(self, rows: Sequence[Floats]) -> Floats:
        """(seeds,), over the datasets."""
        means = [questions.mean(values) for values, questions in zip(rows, self._questions, strict=True)]
        return np.asarray(np.mean(means, axis=0))

    def _seeds_by_questions(self, rows: Sequence[Floats]) -> float:
        """The part of the variance of a seed's mean that is due to the questions: v_both / Q of this method."""
        seeds = len(rows[0])
        if seeds < 2:
            return 0.0
        residuals = [values - values.mean(axis=0) for values in rows]
        by_seed = [
            mean_of([questions.variance(row) for row, questions in zip(of_seed, self._questions, strict=True)])
            for of_seed in zip(*residuals, strict=True)
        ]
        return float(np.mean([part.variance for part in by_seed])) * seeds / (seeds - 1)


def mean_of(parts: Sequence[Part]) -> Part:
    """The variance of the mean of independent estimates, from their variances."""
    shared = [Part(part.variance / len(parts) ** 2, part.freedom) for part in parts]
    variance = sum(part.variance for part in shared)
    return Part(variance, _satterthwaite(variance, shared))


def _satterthwaite(variance: float, parts: Sequence[Part]) -> float:
    """The degrees of freedom of a sum of variances."""
    below = sum(part.variance**2 / part.freedom for part in parts)
    return variance**2 / below if below > 0 else float("nan")


def detectable(error: float, freedom: float, level: float, power: float = 0.8) -> float:
    """The smallest difference that a two-sided test at `level` finds with that power."""
    return error * float(stdtrit(freedom, 1.0 - level / 2.0) + stdtrit(freedom, power))


def sizes_needed(
    parts: tuple[float, float, float], freedom: float, seeds: int, questions: int, margin: float, level: float
) -> tuple[int | None, int | None]:
    """The seeds with these questions, and the questions with these seeds, that make `margin` detectable.

    Args:
        parts: of_seeds, of_questions and of_both of a `Difference`.
        freedom: its degrees of freedom, which grow with the seeds.
        seeds, questions: its numbers, from which the search goes up to 100 times as many.
        margin, level: of `detectable`, at 80 % power.

    Returns:
        Each the smallest number, None where none is enough.
    """
    of_seeds, of_questions, of_both = parts

    def enough(factor: float, more_seeds: bool) -> bool:
        s, q = (seeds * factor, questions) if more_seeds else (seeds, questions * factor)
        error = float(np.sqrt(of_seeds / s + of_questions / q + of_both / (s * q)))
        return detectable(error, freedom * factor if more_seeds else freedom, level) <= margin

    more_seeds = next((n for n in range(seeds, 100 * seeds + 1) if enough(n / seeds, True)), None)
    more_questions = np.unique(np.geomspace(questions, 100 * questions, 500).round().astype(int)).tolist()
    return more_seeds, next((n for n in more_questions if enough(n / questions, False)), None)


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
