"""Solve rates of base and policy, against enumerated splits of samples."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_evaluations import evaluation, study

from dphrl.evaluation.against_base import BINS, against_itself, transitions
from dphrl.evaluation.names import BASE_ITSELF


def percent(right, k):
    """The upper end of the bin of a solve rate."""
    rate = Fraction(right, k)
    if rate in (0, 1):
        return int(100 * rate)
    return next(end for end, share in ((25, 1), (50, 2), (75, 3), (99, 4)) if rate <= Fraction(share, 4))


def cells(table, method):
    rows = table.filter(method=method).select("base_percent", "policy_percent", "prompts")
    return {(one, other): number for one, other, number in rows.iter_rows()}


def of_n(counts, n, method="base"):
    return evaluation(np.arange(n) < np.asarray(counts)[:, None], method, seed=int(method != "base"), step=1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_the_base_against_itself_is_the_mean_over_all_splits(n):
    half, expected = n // 2, Counter()
    for c in range(n + 1):
        draws = [
            (percent(sum(i < c for i in first), half), percent(sum(i < c for i in second), half))
            for first in combinations(range(n), half)
            for second in combinations(sorted(set(range(n)) - set(first)), half)
        ]
        for cell, number in Counter(draws).items():
            expected[cell] += number / len(draws)
    found = cells(transitions(study(of_n(range(n + 1), n).with_columns(step=pl.lit(0, pl.Int32)), [1])), BASE_ITSELF)
    assert found == pytest.approx({cell: expected[cell] for cell in product(BINS, BINS)}, abs=1e-8)


def test_a_policy_is_the_mean_over_all_halves_of_both_draws():
    n, base, trained = 4, [0, 1, 3, 4, 2], [4, 2, 0, 4, 1]
    expected = Counter()
    for pair in zip(base, trained, strict=True):
        halves = [[percent(sum(i < c for i in draw), 2) for draw in combinations(range(n), 2)] for c in pair]
        for cell in product(*halves):
            expected[cell] += 1 / 36
    frame = pl.concat([of_n(base, n).with_columns(step=pl.lit(0, pl.Int32)), of_n(trained, n, "grpo")])
    found = cells(transitions(study(frame, [1])), "grpo")
    assert found == pytest.approx({cell: expected[cell] for cell in product(BINS, BINS)}, abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9))
def test_every_question_is_in_one_cell_and_the_base_has_the_same_rates_everywhere(n, counts):
    base, trained = ([min(count, n) for count in column] for column in zip(*counts, strict=True))
    frame = pl.concat([of_n(base, n).with_columns(step=pl.lit(0, pl.Int32)), of_n(trained, n, "grpo")])
    table = transitions(study(frame, [1]))
    matrices = {method: group["prompts"].to_numpy().reshape(6, 6) for (method,), group in table.group_by("method")}
    itself, policy = matrices[BASE_ITSELF], matrices["grpo"]
    assert itself.sum() == pytest.approx(len(counts))
    assert policy.sum() == pytest.approx(len(counts))
    assert itself.sum(axis=1) == pytest.approx(policy.sum(axis=1), abs=1e-6)
    assert itself == pytest.approx(itself.T, abs=1e-6)


def test_one_sample_cannot_be_split():
    assert transitions(study(of_n([0, 1], 1).with_columns(step=pl.lit(0, pl.Int32)), [1])).is_empty()


def test_many_samples_are_quick():
    assert against_itself(1000, np.arange(1001)).sum() == pytest.approx(1001)
