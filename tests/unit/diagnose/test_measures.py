"""The k at which curves of pass@k cross, and right answers by guessing, against enumeration."""

from itertools import combinations, pairwise, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_evaluations import evaluation, study

from dphrl.diagnose.measures import compared_k, crossing, guessed
from dphrl.evaluation import pass_at_k


def crossed(base, trained, n=16):
    """The crossing of two policies with these numbers of right samples of each question."""
    first, second = (np.arange(n) < np.asarray(counts)[:, None] for counts in (base, trained))
    made = study(pl.concat([evaluation(first), evaluation(second, "grpo", seed=1, step=40)]), [1])
    return crossing(made.policies[0], made.policies[1:]).row(0, named=True)


def test_a_policy_that_sharpens_crosses_the_base():
    """Half of the questions always, the others never, against a third of the samples of each question."""
    base, trained = [5] * 40, [16] * 20 + [0] * 20
    row = crossed(base, trained)
    curve = [pass_at_k(16, 5, k) for k in range(1, 17)]
    assert row["k"] == next(k for k, value in enumerate(curve, 1) if value > 0.5) == 2
    assert row["low"] <= row["k"] <= row["high"] <= row["up_to"] == 16


def test_curves_that_do_not_cross_have_no_k():
    better = crossed([4] * 30, [8] * 30)
    assert (better["k"], better["low"], better["high"], better["up_to"]) == (None, None, None, 16)
    same = crossed([4, 0, 16], [4, 0, 16])
    assert (same["k"], same["high"]) == (None, None)


def test_a_policy_below_from_the_start_crosses_at_one():
    row = crossed([8] * 30, [4] * 30)
    assert (row["k"], row["low"], row["high"]) == (1, 1, 1)


def test_few_questions_leave_the_end_open():
    """One question of twenty decides: some resamples lack it."""
    row = crossed([1] + [8] * 19, [0] + [9] * 19)
    assert row["k"] is not None
    assert row["low"] <= row["k"]
    assert row["high"] is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=10))
def test_it_is_the_first_k_of_a_lower_curve(counts):
    base, trained = zip(*counts, strict=True)
    row = crossed(base, trained, n=8)
    lower = [k for k in range(1, 9) if np.mean(pass_at_k(8, trained, k)) < np.mean(pass_at_k(8, base, k)) - 1e-9]
    assert row["k"] == (lower[0] if lower else None)


@pytest.mark.parametrize("most", [1, 64, 65, 1000])
def test_the_compared_k_are_dense_and_reach_the_end(most):
    k = compared_k(most)
    assert k[: min(most, 64)] == list(range(1, min(most, 64) + 1))
    assert k[-1] == most
    assert all(later <= 1.06 * former + 1 for former, later in pairwise(k))
    assert len(k) < 140


def test_guesses_by_enumeration():
    """pass@2 with the answer of each other question, over all pairs of samples."""
    answers = {"a": ["A", "B", "C"], "b": ["B", "B", "D"], "c": ["C", "A", None]}
    golds = {"a": "A", "b": "B", "c": "C"}
    rows = [(key, text, text == golds[key]) for key, texts in answers.items() for text in texts]
    frame = pl.DataFrame(rows, {"prompt_id": pl.String, "answer_class": pl.String, "correct": pl.Boolean}, orient="row")
    hits = [
        np.mean([golds[other] in draw for draw in combinations(answers[key], 2)])
        for key, other in product(answers, repeat=2)
        if key != other
    ]
    assert guessed(frame, [frame], 2) == pytest.approx([np.mean(hits)] * 2)
    same = frame.with_columns(answer_class=pl.when("correct").then(pl.lit("A")).otherwise("answer_class"))
    assert guessed(same, [same], 2) is None
