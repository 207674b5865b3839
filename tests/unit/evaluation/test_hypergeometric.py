"""Right samples among some of a question's samples, against enumerated draws."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.evaluation.estimator import right_among


@given(st.tuples(st.integers(1, 8), st.integers(1, 8)).map(sorted))
def test_it_is_the_share_of_draws_with_so_many_right_samples(counts):
    k, n = counts
    draws = list(combinations(range(n), k))
    right = [[sum(index < c for index in draw) for draw in draws] for c in range(n + 1)]
    expected = [[of_c.count(j) / len(draws) for j in range(k + 1)] for of_c in right]
    assert right_among(n, k) == pytest.approx(np.array(expected))


def test_chances_of_a_large_draw_add_up():
    chances = right_among(1000, 500)
    assert chances.sum(axis=1) == pytest.approx(np.ones(1001))
    assert chances[1, 1] == pytest.approx(0.5)
    assert right_among(60, 30)[30, 15] == pytest.approx(comb(30, 15) ** 2 / comb(60, 30))
