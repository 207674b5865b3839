"""The frontier of a training: how much accuracy its policies buy while how much of the base's coverage is kept.

Each policy of a training is a point: x, its mean accuracy less the base's, and y, its pass@k over the base's. The base
is (0, 1). H is the upper concave hull of the points: a mixture of two policies, question by
question, reaches every point between theirs. G(kept) is the largest x on H with y >= kept, and A the mean of G over
`kept` from a least share to 1. A training that gains nothing has A = 0, as the base by itself has.

Free points of the frontier are further paths: weights mixed with the base's, and k draws split between both models.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphrl.evaluation.estimator import pass_at_k

Floats = NDArray[np.float64]
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]


def points(right: Floats, solved: Floats) -> Floats:
    """(policies, 2), x and y of each policy of a path whose first policy is the base.

    Args:
        right, solved: (policies, questions), solve rates and pass@k. Coverage may be that of one level alone.
    """
    means, covered = right.mean(axis=1), solved.mean(axis=1)
    return np.column_stack([means - means[0], covered / covered[0]])


def frontier(path: ArrayLike) -> Floats:
    """(corners, 2), the corners of the hull from its highest point on: x rises, y falls.

    Args:
        path: (policies, 2), x and y of each; one of them is the base.
    """
    corners: list[tuple[float, float]] = []
    for x, y in sorted(map(tuple, np.asarray(path, dtype=np.float64).tolist())):
        # A corner at or below the line from the one before it to this point is none.
        while len(corners) > 1 and _turns_left(corners[-2], corners[-1], (x, y)):
            corners.pop()
        if corners and corners[-1][1] <= y:
            corners.pop()
        corners.append((x, y))
    return np.array(corners)


def gain(path: ArrayLike, kept: ArrayLike) -> Floats:
    """G: the largest x on the hull with y >= kept, for each `kept` up to 1."""
    corners = frontier(path)[::-1]
    return np.asarray(np.interp(np.asarray(kept, dtype=np.float64), corners[:, 1], corners[:, 0]))


def accuracy_bought(path: ArrayLike, least: float) -> float:
    """A: the mean of G over `kept` from `least` to 1. Exact, since G is linear between the corners."""
    ends = np.unique(np.clip([least, *frontier(path)[:, 1], 1.0], least, 1.0))
    return float(np.trapezoid(gain(path, ends), ends)) / (1.0 - least)


def split_pass_at_k(policy: Counts, base: Counts, k: int, of_base: int) -> Floats:
    """(questions,), pass@k of k draws of which `of_base` are the base's: exact from the counts, nothing is sampled.

    All draws fail with probability C(n_a - c_a, k - j) C(n_b - c_b, j) / (C(n_a, k - j) C(n_b, j)), j draws of base b.

    Args:
        policy, base: samples n and right ones c of each question.
    """
    failed = np.ones(len(policy[0]))
    for (n, c), draws in ((policy, k - of_base), (base, of_base)):
        if draws:
            failed *= 1.0 - np.asarray(pass_at_k(n, c, draws))
    return 1.0 - failed


def split_draws(policy: Counts, base: Counts, k: int) -> tuple[Floats, Floats]:
    """(k + 1, questions), solve rates and pass@k of split draws, from all of the base to all of the policy.

    They cost two models at use, and help where k answers are drawn; a greedy answer is one model's.
    """
    rates = [c / n for n, c in (policy, base)]
    right = np.stack([(draws * rates[0] + (k - draws) * rates[1]) / k for draws in range(k + 1)])
    solved = np.stack([split_pass_at_k(policy, base, k, k - draws) for draws in range(k + 1)])
    return right, solved


def _turns_left(first: Sequence[float], middle: Sequence[float], last: Sequence[float]) -> bool:
    """Whether the way from the first over the middle to the last point does not turn right."""
    (x0, y0), (x1, y1), (x2, y2) = first, middle, last
    return (x1 - x0) * (y2 - y0) - (y1 - y0) * (x2 - x0) >= 0.0
