"""The frontier of a training by hand-made paths, and split draws against all splits."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from dphrl.evaluation.frontier import accuracy_bought, frontier, gain, points, split_draws

BASE = (0.0, 1.0)


@pytest.mark.parametrize(
    ("path", "bought"),
    [
        ([BASE, (2.0, 0.9), (4.0, 0.6)], 19 / 9),
        # A policy below the hull, and steps in another order, change nothing.
        ([BASE, (4.0, 0.6), (1.0, 0.5), (2.0, 0.9)], 19 / 9),
        # Coverage above the base's: accuracy is bought at all of it.
        ([BASE, (1.0, 1.1), (3.0, 0.8)], 23 / 9),
        # No upper end: what keeps all counts in full.
        ([BASE, (2.0, 1.0)], 2.0),
        # A training that gains nothing, or loses accuracy with coverage.
        ([BASE, (0.0, 0.8), (-1.0, 0.9)], 0.0),
        ([BASE], 0.0),
        # Only what lies left of the least share counts: the line to (6, 0.4) reaches x = 3 at 0.7.
        ([BASE, (6.0, 0.4)], 1.5),
    ],
)
def test_accuracy_bought_by_hand(path: list[tuple[float, float]], bought: float) -> None:
    assert accuracy_bought(path, 0.7) == pytest.approx(bought, abs=1e-12)


def test_the_gain_at_a_kept_share_is_read_off_the_hull() -> None:
    path = [BASE, (2.0, 0.9), (1.0, 0.7), (4.0, 0.6)]
    assert frontier(path).tolist() == [[0.0, 1.0], [2.0, 0.9], [4.0, 0.6]]
    assert gain(path, [1.0, 0.95, 0.9, 0.75, 0.6, 0.5]) == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 4.0])


def test_points_are_relative_to_the_first_policy() -> None:
    right = np.array([[0.5, 0.5], [1.0, 0.5]])
    solved = np.array([[0.8], [0.6]])
    assert points(right, solved) == pytest.approx(np.array([[0.0, 1.0], [0.25, 0.75]]))


def test_split_draws_are_the_mean_over_all_splits() -> None:
    policy, base, k = (np.array([4, 4]), np.array([1, 0])), (np.array([3, 3]), np.array([2, 0])), 3
    right, solved = split_draws(policy, base, k)
    assert right[:, 0] == pytest.approx([2 / 3, (1 / 4 + 4 / 3) / 3, (2 / 4 + 2 / 3) / 3, 1 / 4])
    assert (solved[:, 1] == 0.0).all()
    ours, theirs = [True, False, False, False], [True, True, False]
    for draws in range(k + 1):
        sets = [(*first, *second) for first in combinations(ours, draws) for second in combinations(theirs, k - draws)]
        assert len(sets) == comb(4, draws) * comb(3, k - draws)
        assert solved[draws, 0] == pytest.approx(np.mean([any(drawn) for drawn in sets]), abs=1e-12)
