"""pass@k, maj@n and numbers of right samples: published and exact values, enumerated draws, properties, refusals."""

import json
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import DATA, needs_data

from dphrl.evaluation import pass_at_k
from dphrl.evaluation.estimator import class_counts, majority, right_among

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


@needs_data
def test_published_values():
    sources = json.loads((DATA / "passk" / "passk_published.json").read_text())
    cases = [case for source in sources for case in source.get("cases", [])]
    within = [case for case in cases if case["k"] <= case["n"]]
    assert len(within) == 5
    for case in within:
        assert pass_at_k(case["n"], case["c"], case["k"]) == pytest.approx(case["value"], abs=5e-7)


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


def one_majority(answers, correct, chosen):
    votes = [answers[sample] for sample in chosen if answers[sample] >= 0]
    tied = [answer for answer in set(votes) if votes.count(answer) == max(map(votes.count, votes))]
    return sum(correct[answer] for answer in tied) / max(len(tied), 1)


def alike(labels):
    """Numbers of the first sample with the same label, and whether it is "r"; no label is no answer."""
    codes = np.array([labels.index(label) if label else -1 for label in labels])
    return codes[None], np.array([label == "r" for label in labels])[None]


LABELS = st.lists(st.sampled_from(["r", "a", "b", ""]), min_size=1, max_size=8)


@given(LABELS)
def test_the_majority_is_the_most_frequent_answer(labels):
    codes, correct = alike(labels)
    assert majority(codes, correct)[0] == pytest.approx(one_majority(codes[0], correct[0], range(len(labels))))


def test_ties_share_and_no_vote_solves_nothing():
    codes = np.array([[0, 0, 2, 2], [0, 1, 2, 3], [-1, -1, -1, -1], [0, -1, -1, -1]])
    correct = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=bool)
    assert majority(codes, correct).tolist() == [0.5, 0.25, 0.0, 1.0]


@given(st.lists(st.lists(st.integers(-1, 4), min_size=5, max_size=5), min_size=1, max_size=6))
def test_counts_are_those_of_the_definition(codes):
    counts = class_counts(np.array(codes))
    for row, by_class in zip(codes, counts, strict=True):
        assert by_class.tolist() == [row.count(code) for code in range(counts.shape[1])]


def test_counts_of_some_samples():
    among = np.array([[True, False, True]])
    assert class_counts(np.array([[0, 0, 2]]), among).tolist() == [[1, 0, 1]]


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
