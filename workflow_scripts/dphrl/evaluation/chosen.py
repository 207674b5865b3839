"""Questions that were chosen by the samples that are diagnosed: signs of it, and the loss that it explains."""

import numpy as np
from numpy.typing import NDArray

from dphrl.evaluation.paired import PairedDifference
from dphrl.evaluation.study import Policy

# By Chao's number, so many unsolved questions must be expected before their absence is a sign of a filter.
_UNSEEN = 5.0
_FEWEST_SAMPLES = 4
# The quantile of a 95 % interval of a normal variable.
_NORMAL = 1.96


def look_chosen(n: NDArray[np.int64], c: NDArray[np.int64]) -> bool:
    """Whether questions that no sample solves, or that all solve, were taken out of a file.

    f_j questions have j right samples of n. Chao's bias-corrected number of questions that no sample solves is
    (n - 1) / n f_1 (f_1 - 1) / (2 (f_2 + 1)) (Chao 1987, Biometrics 43, 783-791). If this is five or more and the file
    holds none, a filter is likely; so too from the other end. Only questions with the most frequent n count.

    Args:
        n, c: (questions,), samples and right ones.
    """
    sizes, numbers = np.unique(n, return_counts=True)
    most = int(sizes[numbers.argmax()])
    if most < _FEWEST_SAMPLES:
        return False
    counts = np.bincount(c[n == most], minlength=most + 1).astype(float)
    ends = (counts[:3], counts[::-1][:3])
    unseen = ((most - 1) / most * f1 * (f1 - 1) / (2 * (f2 + 1)) for f0, f1, f2 in ends if not f0)
    return any(number >= _UNSEEN for number in unseen)


def choice_explains(coverage: PairedDifference, base: Policy, k: int) -> bool:
    """Whether no loss is shown beyond the questions that choosing by these samples adds to the base's pass@k.

    If the base's file holds no unsolved question, k further samples would solve some of the questions that were left
    out: minus the sum of (-k / n)^c over the questions of the file, by Good and Toulmin (1956, Biometrika 43, 45-63),
    with the variance sum of (k / n)^2c.
    """
    c = base.right
    if not c.all():
        return False
    weights = (k / base.sizes) ** c
    hidden = float((np.where(c % 2, weights, -weights)).sum())
    number = coverage.questions
    half = float(np.hypot(number * (coverage.wide[1] - coverage.value), _NORMAL * np.sqrt((weights**2).sum())))
    return number * coverage.value + hidden + half > 0.0
