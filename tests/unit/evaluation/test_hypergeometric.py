"""G-Pass@k, against enumerated draws and its relatives."""

from fractions import Fraction
from itertools import combinations
from math import ceil, comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.evaluation.estimator import g_pass_at_k, pass_at_k, pass_hat_k, right_among

COUNTS = st.tuples(st.integers(1, 8), st.integers(1, 8)).map(sorted)


def reached(n, c, k, fewest):
    """The share of all draws with so many right samples."""
    draws = [sum(draw) >= fewest for draw in combinations([index < c for index in range(n)], k)]
    return Fraction(sum(draws), len(draws))


@given(COUNTS, st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(7, 10), Fraction(1)]))
def test_it_is_the_share_of_draws_with_enough_right_samples(counts, tau):
    k, n = counts
    found = g_pass_at_k(n, np.arange(n + 1), k, float(tau))
    assert found == pytest.approx([float(reached(n, c, k, ceil(tau * k))) for c in range(n + 1)])


@given(st.integers(1, 300), st.data())
def test_its_ends_are_pass_at_k_and_pass_hat_k(n, data):
    k, c = data.draw(st.integers(1, n)), np.arange(n + 1)
    assert g_pass_at_k(n, c, k, 0.0) == pytest.approx(pass_at_k(n, c, k), abs=1e-9)
    assert g_pass_at_k(n, c, k, 1.0) == pytest.approx(pass_hat_k(n, c, k), abs=1e-9)


def test_ten_draws_with_seven_right_reach_seven_tenths():
    """0.7 * 10 is above 7 in floating point."""
    assert g_pass_at_k(10, np.array([7]), 10, 0.7).tolist() == [1.0]


def test_chances_of_a_large_draw_add_up():
    chances = right_among(1000, 500)
    assert chances.sum(axis=1) == pytest.approx(np.ones(1001))
    assert chances[1, 1] == pytest.approx(0.5)
    assert right_among(60, 30)[30, 15] == pytest.approx(comb(30, 15) ** 2 / comb(60, 30))
