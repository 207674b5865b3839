"""Keep and exploration at every k, against enumerated draws and identities."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_evaluations import evaluation, study

from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.store.catalogue import SCHEMAS

NUMBERS = ("kept", "lost", "gained", "neither")


def rows(correct, n):
    """(prompts, n) with these numbers of right samples."""
    return np.arange(n) < np.asarray(correct)[:, None]


def compared(base, trained, n, k):
    frame = pl.concat([evaluation(rows(base, n)), evaluation(rows(trained, n), "grpo", seed=1, step=40)])
    return keep_explore(study(frame, k))


def enumerated(pairs):
    """Kept, lost, gained, neither: means over pairs of draws, each a tuple of samples that are right or wrong."""
    counts = [0, 0, 0, 0]
    for first, second in pairs:
        counts[2 * (not any(first)) + (any(first) != any(second) if any(first) else not any(second))] += 1
    return [Fraction(count, sum(counts)) for count in counts]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_numbers_of_questions_are_those_of_all_pairs_of_draws(k):
    n, base, trained = 5, [0, 1, 2, 5, 4, 0], [3, 0, 1, 5, 1, 0]
    expected = np.zeros(4, dtype=object)
    for right, other in zip(base, trained, strict=True):
        draws = (combinations([index < count for index in range(n)], k) for count in (right, other))
        expected += enumerated(product(*draws))
    found = compared(base, trained, n, [k]).filter(method="grpo").row(0, named=True)
    assert [found[name] for name in NUMBERS] == pytest.approx([float(one) for one in expected], abs=1e-12)
    kept, lost, gained, neither = expected
    assert found["keep"] == pytest.approx(float(kept / (kept + lost)))
    assert found["explore"] == pytest.approx(float(gained / (gained + neither)))
    assert found["ndr"] == pytest.approx(float(gained / (kept + gained)))


@pytest.mark.parametrize(("n", "k"), [(6, 1), (6, 2), (6, 3), (5, 2), (2, 1)])
def test_the_base_against_itself_is_the_mean_over_all_pairs_of_disjoint_draws(n, k):
    base = range(n + 1)
    expected = np.zeros(4, dtype=object)
    for right in base:
        disjoint = (
            ([index < right for index in first], [index < right for index in second])
            for first in combinations(range(n), k)
            for second in combinations(sorted(set(range(n)) - set(first)), k)
        )
        expected += enumerated(disjoint)
    found = compared(base, base, n, [k]).filter(method=BASE_ITSELF).row(0, named=True)
    assert [found[name] for name in NUMBERS] == pytest.approx([float(one) for one in expected], abs=1e-12)


def test_the_base_against_itself_needs_twice_as_many_samples_as_k():
    found = compared([1, 2], [2, 2], 8, [1, 2, 4, 8])
    assert found.filter(method=BASE_ITSELF)["k"].to_list() == [1, 2, 4]
    assert found.filter(method="grpo")["k"].to_list() == [1, 2, 4, 8]
    assert found.equals(SCHEMAS["keep_explore"].frame(found.rows()))
    assert compared([0], [1], 1, [1])["method"].to_list() == ["grpo"]


def test_a_rate_over_no_questions_is_null():
    never = compared([0, 0], [1, 0], 2, [1]).filter(method="grpo").row(0, named=True)
    assert (never["keep"], never["explore"], never["ndr"]) == (None, 0.25, 1.0)
    always = compared([2, 2], [1, 2], 2, [2]).filter(method="grpo").row(0, named=True)
    assert (always["keep"], always["explore"]) == (1.0, None)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12), st.integers(1, 9))
def test_gains_and_losses_add_up_to_the_change_of_pass_at_k(counts, k):
    base, trained = zip(*counts, strict=True)
    frame = pl.concat([evaluation(rows(base, 9)), evaluation(rows(trained, 9), "grpo", seed=1, step=40)])
    solved = [policy.pass_at([k]).sum() for policy in study(frame, [k]).policies]
    for found in keep_explore(study(frame, [k])).iter_rows(named=True):
        before, after = solved[0], solved[found["method"] != BASE_ITSELF]
        kept, lost, gained, neither = (found[name] for name in NUMBERS)
        assert min(kept, lost, gained, neither) >= 0
        assert kept + lost + gained + neither == pytest.approx(len(counts))
        assert gained - lost == pytest.approx(after - before, abs=1e-9)
        assert kept + gained == pytest.approx(after, abs=1e-9)
