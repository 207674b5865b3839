"""Classes at equal numbers of right answers."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_evaluations import evaluation, study, with_classes

from dphrl.evaluation.variety import FEWEST_PROMPTS, rarefaction, rarefied

COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(COUNTS, st.integers(1, 8))
def test_the_number_of_classes_is_the_mean_over_all_draws(counts, m):
    samples = [name for name, count in enumerate(counts) for _ in range(count)]
    found = rarefied(np.array([counts]), m)
    assert found.shape == (1,)
    if m > len(samples):
        assert np.isnan(found[0])
    else:
        draws = [len(set(draw)) for draw in combinations(samples, m)]
        assert found[0] == pytest.approx(float(Fraction(sum(draws), len(draws))))


@pytest.mark.parametrize(("ways", "expected"), [(5, 1.80), (2, 1.50)])
def test_the_number_of_right_answers_does_not_bias_it(ways, expected):
    """METHOD 15.2.6: five equal ways against two; right answers of any number c, over all their sequences."""
    for c in (2, 3, 4):
        sequences = np.array(list(product(range(ways), repeat=c)))
        counts = np.stack([(sequences == way).sum(axis=1) for way in range(ways)], axis=1)
        assert rarefied(counts, 2).mean() == pytest.approx(expected)


def styled(name, chance, ways, prompts=4_000, n=16, seed=0):
    """A policy right with a chance, whose answers have one of some equally frequent styles."""
    generator = np.random.default_rng(seed)
    frame = evaluation(
        generator.random((prompts, n)) < chance, name, seed=int(name != "base"), step=int(name != "base")
    )
    drawn = generator.integers(0, ways, (prompts, n))
    names = pl.Series([[f"way {one}" for one in row] for row in drawn.tolist()], dtype=pl.List(pl.String))
    return frame.with_columns(names.alias("styles"))


def test_accuracy_hides_a_collapse_that_equal_numbers_show():
    """METHOD 15.2.6: among all right answers 1.38 against 2.00, among two of them 1.80 against 1.50."""
    base, collapsed = styled("base", 0.1, 5), styled("grpo", 1.0, 2)
    naive = [
        np.mean(
            [
                len({style for style, right in zip(styles, correct, strict=True) if right})
                for styles, correct in one.select("styles", "correct").iter_rows()
            ]
        )
        for one in (base, collapsed)
    ]
    assert naive == pytest.approx([5 * (1 - 0.98**16), 2.0], abs=0.05)
    table = rarefaction(study(pl.concat([base, collapsed]))).filter(m=2, classes="styles")
    assert table["value"].to_list() == pytest.approx([1.80, 1.50], abs=0.03)
    both = (base["c"] >= 2).sum()
    assert table["prompts"].to_list() == [both, both]


def classed(right, classes, method="base"):
    frame = evaluation(right, method, seed=int(method != "base"), step=int(method != "base"), style=())
    return with_classes(frame, classes, classes)


def test_all_policies_are_compared_on_the_same_prompts_and_few_prompts_are_not_shown():
    generator = np.random.default_rng(1)
    right = generator.random((3 * FEWEST_PROMPTS, 8)) < 0.6
    classes = np.zeros(right.shape, dtype=int)
    other = right.copy()
    other[:FEWEST_PROMPTS, 1:] = False
    table = rarefaction(study(pl.concat([classed(right, classes.tolist()), classed(other, classes.tolist(), "grpo")])))
    for m in (2, 4):
        both = (np.minimum(right.sum(axis=1), other.sum(axis=1)) >= m).sum()
        rows = table.filter(m=m, classes="programs")
        assert rows["prompts"].to_list() == [both] * 2
        assert rows["value"].to_list() == [1.0, 1.0]
    # Few prompts have 8 right answers of 8.
    assert table.filter(m=8).is_empty()
