"""Intervals by resampling whole prompts: the samples of one prompt are not independent of each other."""

import hashlib
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dphrl.config.evaluate import BootstrapConfig

Floats = NDArray[np.float64]


class PromptBootstrap:
    """Seeded resamples of the prompts of one dataset, shared by every quantity and policy measured on it.

    The resamples depend on seed, dataset name, number of prompts and replicates only, so another dataset or method
    in the same run changes nothing, and differences between policies stay paired.
    """

    def __init__(self, prompts: int, dataset: str, config: BootstrapConfig, seed: int) -> None:
        name = int.from_bytes(hashlib.sha256(dataset.encode()).digest()[:8], "big")
        generator = np.random.default_rng([seed, name])
        self._confidence = config.confidence
        self._counts = generator.multinomial(prompts, np.full(prompts, 1.0 / prompts), size=config.replicates)

    def ratio(
        self, numerator: Floats, denominator: Floats | None = None, proportion: bool = True
    ) -> tuple[Floats, Floats, Floats]:
        """Ratio of two sums over prompts, with a percentile interval from the resampled prompts.

        Where a proportion is exactly 0 or 1 every resample agrees and the bootstrap has no width; the Wilson bound on
        the number of prompts takes its place.

        Args:
            numerator: (prompts, quantities) float64.
            denominator: same shape, None for 1 per prompt (the ratio is then the mean over prompts).
            proportion: whether the ratios lie in [0, 1].

        Returns:
            value, low, high, each (quantities,) float64; NaN where the denominator is 0 for all prompts.
        """
        below = np.ones_like(numerator) if denominator is None else denominator
        prompts = np.count_nonzero(below, axis=0)
        counts = self._counts.astype(np.float64)
        with np.errstate(invalid="ignore"):
            value = numerator.sum(axis=0) / below.sum(axis=0)
            replicates = (counts @ numerator) / (counts @ below)
        tail = (1.0 - self._confidence) / 2.0
        low, high = np.full_like(value, np.nan), np.full_like(value, np.nan)
        known = prompts > 0
        # A matrix product may differ in the last bits between machines; rounding keeps the tables the same everywhere.
        low[known], high[known] = np.nanquantile(replicates[:, known], [tail, 1.0 - tail], axis=0).round(12)
        if proportion:
            for index in np.flatnonzero(known & ((value == 0.0) | (value == 1.0))):
                low[index], high[index] = wilson(float(value[index]), int(prompts[index]), self._confidence)
        return value, low, high


def wilson(share: float, n: int, confidence: float) -> tuple[float, float]:
    """Wilson score interval of a proportion `share` seen in `n` independent trials (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    centre = share + z * z / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, float((centre - half) / scale)), min(1.0, float((centre + half) / scale))
