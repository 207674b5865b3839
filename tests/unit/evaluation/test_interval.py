"""The one interval: its parts, known vectors, and how often it holds the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power
from scipy.stats import permutation_test, ttest_1samp, ttest_ind

from dphrl.evaluation.interval import (
    Estimate,
    Part,
    Questions,
    difference,
    permutation_p,
    ratio,
    sizes_needed,
    wilson,
)

TRIALS = 3000


def between(ours, theirs, questions=None):
    """The difference on one dataset, from (trainings, questions) values."""
    return difference([ours], [theirs], [questions or Questions(np.ones(ours.shape[1]))])


def test_both_parts_of_a_known_difference():
    """Trainings are at -10, 0 and +10 points, two of four questions at +20: t(4) = 2.776 and t(3) = 3.182."""
    of_trainings, of_questions = np.array([[-0.1], [0.0], [0.1]]), np.array([0.0, 0.2, 0.0, 0.2])
    measured = between(of_trainings + of_questions, np.tile(of_trainings, 4))
    assert measured.value == pytest.approx(0.1)
    assert [part.half(0.05) for part in measured.parts] == pytest.approx([0.2267, 0.1837], abs=1e-4)
    assert measured.half(0.05) == pytest.approx(0.2918, abs=1e-4)
    assert measured.interval(0.95) == pytest.approx((-0.1918, 0.3918), abs=1e-4)
    assert measured.interval(1.0 - measured.p)[0] == pytest.approx(0.0, abs=1e-9)


def test_with_one_training_the_interval_is_the_paired_one_over_questions():
    base, tuned = np.random.default_rng(4).random((2, 1, 40))
    measured, test = between(tuned, base), ttest_1samp((tuned - base)[0], 0.0)
    assert measured.trainings is None
    assert measured.interval(0.9) == pytest.approx(tuple(test.confidence_interval(0.9)))
    assert measured.p == pytest.approx(test.pvalue)


def test_where_questions_agree_the_test_is_welchs_over_trainings():
    ours, theirs = np.array([0.5, 0.54, 0.52]), np.array([0.44, 0.5, 0.47, 0.61])
    measured, test = (
        between(np.tile(ours[:, None], 50), np.tile(theirs[:, None], 50)),
        ttest_ind(ours, theirs, equal_var=False),
    )
    assert measured.p == pytest.approx(test.pvalue)
    assert measured.trainings.freedom == pytest.approx(test.df)
    # Against a base without a training, where one of three trainings solves nothing.
    alone = between(np.tile([[1.0], [1.0], [0.0]], 50), np.ones((1, 50)))
    assert alone.p == pytest.approx(ttest_1samp([0.0, 0.0, -1.0], 0.0).pvalue)


def test_where_nothing_varies_and_for_one_question_there_is_no_interval():
    same = between(np.full((3, 9), 0.75), np.full((1, 9), 0.5))
    assert same.value == 0.25
    weight = np.array([0.0, 1.0, 0.0])
    single = between(np.ones((2, 3)) * weight, np.full((1, 3), 0.5) * weight, Questions(weight))
    assert single.value == 0.5
    assert np.isnan([measured.p for measured in (same, single)]).all()
    assert np.isnan([measured.interval(0.95) for measured in (same, single)]).all()


def test_an_average_over_datasets_has_a_quarter_of_the_sum_of_their_variances():
    random = np.random.default_rng(1)
    (a, b), (c, d) = random.random((2, 1, 80)), random.random((2, 1, 30))
    alone, other = between(a, b), between(c, d)
    both = difference([a, c], [b, d], [Questions(np.ones(80)), Questions(np.ones(30))])
    assert both.value == pytest.approx((alone.value + other.value) / 2)
    assert both.error**2 == pytest.approx((alone.error**2 + other.error**2) / 4)
    assert both.questions.freedom == pytest.approx(29)


def test_clusters_have_the_variance_and_freedom_of_cr2_by_matrices():
    """Bell and McCaffrey's definition with (I - H)^(-1/2) and projections, for a regression on a constant."""
    labels = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 4])
    values = np.random.default_rng(1).random(12)
    project = np.eye(12) - np.ones((12, 12)) / 12
    vectors = []
    for cluster in range(5):
        inside = np.diag((labels == cluster).astype(float))[labels == cluster]
        block = inside @ project @ inside.T
        scores = np.ones(len(block)) @ fractional_matrix_power(block, -0.5) @ inside @ project / 12
        vectors.append(np.real(scores))
    inner = np.array([[a @ b for b in vectors] for a in vectors])
    variance, freedom = Questions(np.ones(12), labels).spread(values)
    assert variance == pytest.approx(sum((vector @ values) ** 2 for vector in vectors))
    assert freedom == pytest.approx(np.trace(inner) ** 2 / (inner**2).sum())


def test_four_clusters_say_nothing_about_others():
    labels, values = np.repeat(np.arange(4), 5), np.random.default_rng(2).random(20)
    plain, few = Questions(np.ones(20)), Questions(np.ones(20), labels)
    assert (few.clusters, few.grouped) == (4, False)
    assert few.spread(values) == plain.spread(values)


def test_questions_without_weight_count_nowhere():
    weight, values = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.0, 0.5, 0.9])
    some, alone = Questions(weight), Questions(np.ones(3))
    kept = values[weight > 0]
    assert some.number == 3
    assert some.mean(values) == pytest.approx(kept.mean())
    assert np.stack(some.spread(values)) == pytest.approx(np.stack(alone.spread(kept)))


@given(st.randoms())
def test_the_order_of_trainings_and_questions_changes_nothing(shuffler):
    random = np.random.default_rng(0)
    ours, theirs, order = random.random((3, 20)), random.random((4, 20)), list(range(20))
    shuffler.shuffle(order)
    before, after = between(ours, theirs), between(ours[::-1][:, order], theirs[::-1][:, order])
    assert after.value == pytest.approx(before.value)
    assert after.interval(0.95) == pytest.approx(before.interval(0.95))
    assert after.p == pytest.approx(before.p)


def test_permutations_of_trainings():
    assert permutation_p(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])) == pytest.approx(2 / 20)
    ours, theirs = np.random.default_rng(3).random(6), np.random.default_rng(4).random(4) + 0.3
    test = permutation_test((ours, theirs), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf)
    # Of groups of unlike sizes the two tails are not mirrored: scipy doubles the smaller one.
    assert permutation_p(ours, theirs) <= test.pvalue
    assert np.isnan(permutation_p(ours, theirs[:1]))
    assert np.isnan(permutation_p(np.zeros(16), np.zeros(16)))


def test_the_smallest_difference_that_a_study_finds():
    """t(20) is 2.086 at 5 % and 0.860 at 80 %."""
    alone = Estimate(0.0, None, Part(0.02, 20.0))
    assert alone.detectable(0.05) == pytest.approx(0.02 * (2.086 + 0.860), abs=1e-4)
    assert sizes_needed(alone, 3, 300, 0.02, 0.05)[0] is None
    # Eight times as many questions have t(160): 0.02 / sqrt(8) (1.975 + 0.844) is below 0.02.
    assert sizes_needed(alone, 3, 300, 0.02, 0.05)[1] == pytest.approx(2400, rel=0.01)
    both = Estimate(0.0, Part(0.03, 4.0), Part(0.005, 299.0))
    seeds, questions = sizes_needed(both, 3, 300, 0.05, 0.05)
    assert seeds < 12
    assert questions is None


def test_wilson_known_values():
    assert np.stack(wilson([0.5, 0.0, 1.0], [10, 30, 30], 0.95)) == pytest.approx(
        np.array([[0.2366, 0.0, 0.8865], [0.7634, 0.1135, 1.0]]), abs=1e-4
    )


def test_a_proportion_whose_interval_reaches_an_end_has_that_of_wilson():
    values = np.zeros((30, 3))
    values[:, 1], values[0, 2] = 1.0, 0.5
    value, low, high = ratio(values)
    assert value == pytest.approx([0.0, 1.0, 0.5 / 30])
    assert np.stack([low, high]) == pytest.approx(np.stack(wilson(value, 30, 0.95)))
    # A difference is no proportion.
    assert ratio(values, proportion=False)[1][2] < 0


def test_a_rate_over_no_prompts_is_not_a_number():
    assert np.isnan(ratio(np.zeros((5, 1)), np.zeros((5, 1)))).all()


def covered(truth, interval):
    _, low, high = interval
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("clusters", [5, 11, 25])
def test_intervals_over_databases_hold_the_truth_where_those_over_questions_do_not(clusters):
    generator = np.random.default_rng(6)
    sizes = np.arange(1, clusters + 1) * 4
    databases = np.repeat(np.arange(clusters), sizes)
    values = generator.normal(size=(clusters, TRIALS))[databases] / 3 + generator.normal(size=(sizes.sum(), TRIALS))
    assert 0.93 <= covered(0.0, ratio(values, clusters=databases, proportion=False)) <= 0.98
    assert covered(0.0, ratio(values, proportion=False)) < 0.9


def test_intervals_over_three_trainings_hold_the_truth():
    """Trainings of a method vary by 14 points, of the other by 2."""
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        ability = random.normal(0.0, 0.1, 100)
        trainings = random.normal(0.0, np.array([0.14, 0.02])[:, None, None], (2, 3, 1))
        ours, theirs = ability + trainings + random.normal(0.0, 0.1, (2, 3, 100))
        low, high = between(ours, theirs).interval(0.95)
        hits += low <= 0.0 <= high
    assert 930 <= hits <= 985
