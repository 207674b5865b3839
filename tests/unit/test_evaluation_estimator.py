"""pass@k: published and exact values, properties, refusals."""

import json
import os
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.evaluation import pass_at_k

DATA = Path(os.environ.get("DPHRL_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
COUNTS = st.integers(1, 120).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (8, 1, 8, 1.0),
        (16, 1, 8, 0.5),
        (16, 4, 8, 0.96153846),
        (16, 9, 8, 1.0),
        (64, 3, 16, 0.58486943),
        (8, 6, 1, 0.75),
        (32, 0, 8, 0.0),
        (10, 5, 5, 0.996032),
    ],
)
def test_known_values(n, c, k, value):
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=5e-7)


def test_exact_values_of_the_shared_table():
    path = DATA / "passk" / "passk_exact.jsonl"
    if not path.exists():
        pytest.skip(f"no shared data at {DATA}; set DPHRL_TEST_DATA")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    n, c, k, value = (np.array([row[name] for row in rows]) for name in ("n", "c", "k", "value"))
    np.testing.assert_allclose(pass_at_k(n, c, k), value, rtol=1e-12, atol=1e-15)


@given(COUNTS)
def test_equals_the_exact_fraction(counts):
    n, c, k = counts
    exact = 1 - Fraction(comb(n - c, k), comb(n, k))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact), rel=1e-12)


@given(COUNTS)
def test_never_falls_with_k_and_starts_at_the_mean(counts):
    n, c, _ = counts
    values = pass_at_k(n, c, np.arange(1, n + 1))
    assert values[0] == c / n
    assert (np.diff(values) >= 0).all()
    assert values[-1] == (1.0 if c else 0.0)


def test_shapes_broadcast_and_scalars_stay_scalar():
    assert isinstance(pass_at_k(8, 2, 4), float)
    values = pass_at_k(16, np.array([[0], [3], [16]]), np.array([1, 8]))
    assert values.shape == (3, 2)
    assert values.dtype == np.float64
    assert pass_at_k(8, np.array([], dtype=np.int64), 4).shape == (0,)


@pytest.mark.parametrize(("n", "c", "k"), [(8, 2, 9), (8, 9, 1), (8, -1, 1), (8, 1, 0), (0, 0, 1)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match=rf"n={n}, c={c}, k={k}"):
        pass_at_k(n, c, k)


def test_fractions_are_refused():
    with pytest.raises(ValueError, match="c must be integers"):
        pass_at_k(8, 0.5, 1)
