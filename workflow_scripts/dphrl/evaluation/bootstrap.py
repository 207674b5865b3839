"""Intervals by resampling whole prompts: the samples of one prompt are not independent of each other."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from dphrl.config.blocks.evaluation import BootstrapConfig
from dphrl.evaluation.crossed import FEWEST_CLUSTERS, Estimate, Floats, Questions

FEWEST_RESAMPLED = 20
# Resamples of more units would need gigabytes, and a mean over so many is normal.
_MOST_RESAMPLED = 10_000
_BLOCK = 100


class PromptBootstrap:
    """Seeded resamples of the prompts of one dataset, shared by every quantity and policy measured on it.

    The resamples depend on seed, dataset name, number of prompts (or clusters) and replicates only. Another dataset or
    method in the same run changes nothing, and differences between policies stay paired.

    Args:
        prompts: number of prompts.
        dataset: name of the dataset.
        config: replicates and confidence.
        seed: of the resamples.
        clusters: (prompts,) labels, such as the database that a prompt asks. With 20 of them or more, whole clusters
            are resampled. 5 to 19 are too few to resample: intervals are then t intervals with the cluster-robust
            variance of `Questions`. Fewer do not show how clusters differ, so prompts are resampled. More than 10,000
            prompts or clusters have t intervals too.
    """

    def __init__(
        self, prompts: int, dataset: str, config: BootstrapConfig, seed: int, clusters: ArrayLike | None = None
    ) -> None:
        self._seeds = [seed, int.from_bytes(hashlib.sha256(dataset.encode()).digest()[:8], "big")]
        self._replicates, self._confidence = config.replicates, config.confidence
        self.units, self._unit = prompts, None
        if clusters is not None:
            labels, unit = np.unique(np.asarray(clusters), return_inverse=True)
            if len(labels) >= FEWEST_CLUSTERS:
                self.units, self._unit = len(labels), unit
        few = self._unit is not None and self.units < FEWEST_RESAMPLED
        self._by_variance = few or self.units > _MOST_RESAMPLED
        self._counts = np.empty((0, self.units)) if self._by_variance else self._resamples()

    def ratio(
        self, numerator: Floats, denominator: Floats | None = None, proportion: bool = True
    ) -> tuple[Floats, Floats, Floats]:
        """Ratio of two sums over prompts, with an interval from the resampled prompts.

        The interval is the expanded percentile interval. It takes the tails of a t interval over the same number of
        units, as percentiles alone are too narrow for few units (Hesterberg, arXiv 1411.5279).
        A proportion of exactly 0 or 1 is equal in all resamples, and its bootstrap interval is a point. The Wilson
        bound replaces it, for the number of prompts (or clusters), or for the sum of the weights if smaller.

        Args:
            numerator: (prompts, quantities) float64.
            denominator: same shape, None for 1 per prompt (the ratio is then the mean over prompts).
            proportion: whether the ratios lie in [0, 1].

        Returns:
            value, low, high, each (quantities,) float64; NaN where the denominator is 0 for all prompts.
        """
        denominator = np.ones((len(numerator), 1)) if denominator is None else denominator
        above, below = self._by_unit(numerator), self._by_unit(denominator)
        units = np.broadcast_to(np.count_nonzero(below, axis=0), above.shape[1:])
        with np.errstate(invalid="ignore"):
            value = above.sum(axis=0) / below.sum(axis=0)
        if self._by_variance:
            low, high = self._over_variance(numerator, np.broadcast_to(denominator, numerator.shape), proportion)
        else:
            low, high = self._over_resamples(above, below, units)
        if proportion:
            trials = np.minimum(units, np.broadcast_to(below.sum(axis=0), units.shape))
            for index in np.flatnonzero((units > 0) & ((value == 0.0) | (value == 1.0))):
                low[index], high[index] = wilson(float(value[index]), float(trials[index]), self._confidence)
        return value, low, high

    def _over_resamples(self, above: Floats, below: Floats, units: NDArray[np.int64]) -> tuple[Floats, Floats]:
        with np.errstate(invalid="ignore"):
            replicates = (self._counts @ above) / (self._counts @ below)
        low, high = np.full((2, len(units)), np.nan)
        for size in np.unique(units[units > 0]):
            same_size = units == size
            tail = self._tail(int(size))
            # A matrix product may differ in the last bits between machines; rounding keeps the tables the same.
            here = replicates[:, same_size]
            # nanquantile goes through the columns one by one.
            quantile = np.nanquantile if np.isnan(here).any() else np.quantile
            low[same_size], high[same_size] = quantile(here, [tail, 1.0 - tail], axis=0).round(12)
        return low, high

    def _over_variance(self, numerator: Floats, denominator: Floats, proportion: bool) -> tuple[Floats, Floats]:
        low, high = np.full((2, numerator.shape[1]), np.nan)
        for column in np.flatnonzero(denominator.any(axis=0)):
            questions = Questions(denominator[:, column], self._unit)
            part, value = questions.variance(numerator[:, column]), float(questions.mean(numerator[:, column]))
            estimate = Estimate(value, float(np.sqrt(part.variance)), part.freedom)
            low[column], high[column] = np.round(estimate.interval(self._confidence), 12)
        return (low.clip(0.0, 1.0), high.clip(0.0, 1.0)) if proportion else (low, high)

    def _resamples(self) -> Floats:
        """(replicates, units), how often each unit was drawn."""
        generator = np.random.default_rng(self._seeds)
        counts = np.empty((self._replicates, self.units))
        for start in range(0, self._replicates, _BLOCK):
            rows = counts[start : start + _BLOCK]
            drawn = generator.integers(0, self.units, rows.shape) + self.units * np.arange(len(rows))[:, None]
            rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
        return counts

    def _by_unit(self, values: Floats) -> Floats:
        if self._unit is None:
            return values
        sums = np.zeros((self.units, values.shape[1]))
        np.add.at(sums, self._unit, values)
        return sums

    def _tail(self, units: int) -> float:
        """Share of the replicates beyond each end of the interval."""
        # One unit alone shows no spread; a t quantile needs two units.
        units = max(units, 2)
        quantile = stdtrit(units - 1, 0.5 + self._confidence / 2.0)
        return float(ndtr(-np.sqrt(units / (units - 1)) * quantile))


def wilson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Wilson score interval of a proportion `share` seen in `n` independent trials (Wilson 1927)."""
    z = ndtri(0.5 + confidence / 2.0)
    centre = share + z * z / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 or 1 the bound is the end itself, but for the last bits.
    # Adding 0 turns -0 into 0.
    low, high = np.clip(np.round([(centre - half) / scale, (centre + half) / scale], 12), 0.0, 1.0) + 0.0
    return float(low), float(high)
