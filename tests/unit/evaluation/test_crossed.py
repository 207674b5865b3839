"""The crossed model: seeds and questions both vary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power
from scipy.stats import ttest_1samp, ttest_ind

from dphrl.evaluation.crossed import Crossed, Questions, detectable, seed_spreads, sizes_needed


def crossed(values, questions=None, untrained=("base",)):
    """A run with one dataset: (seeds, questions) by method."""
    number = next(iter(values.values())).shape[1]
    return Crossed(
        {name: [rows] for name, rows in values.items()}, [questions or Questions(np.ones(number))], untrained
    )


def simulated(seeds=3, number=200, methods=("a", "b", "c"), seed_sd=0.02, seed=0):
    random = np.random.default_rng(seed)
    found = {}
    for method in methods:
        ability, of_seeds = random.normal(0.5, 0.1, number), random.normal(0, seed_sd, (seeds, 1))
        found[method] = ability + of_seeds + random.normal(0, 0.1, (seeds, number))
    return found


def test_independent_questions_have_the_textbook_variance():
    values = np.random.default_rng(0).random(30)
    part = Questions(np.ones(30)).variance(values)
    assert part.variance == pytest.approx(values.var(ddof=1) / 30)
    assert part.freedom == pytest.approx(29)


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
    part = Questions(np.ones(12), labels).variance(values)
    assert part.variance == pytest.approx(sum((vector @ values) ** 2 for vector in vectors))
    assert part.freedom == pytest.approx(np.trace(inner) ** 2 / (inner**2).sum())


def test_four_clusters_say_nothing_about_others():
    labels = np.repeat(np.arange(4), 5)
    plain, few = Questions(np.ones(20)), Questions(np.ones(20), labels)
    values = np.random.default_rng(2).random(20)
    assert few.clusters == 4
    assert few.variance(values) == plain.variance(values)
    five = Questions(np.ones(25), np.repeat(np.arange(5), 5)).variance(np.random.default_rng(2).random(25))
    assert five.freedom == pytest.approx(4)


def test_questions_without_weight_count_nowhere():
    weight, values = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.0, 0.5, 0.9])
    some, alone = Questions(weight), Questions(np.ones(3))
    kept = values[weight > 0]
    assert some.number == 3
    assert some.mean(values) == pytest.approx(kept.mean())
    assert some.variance(values).variance == pytest.approx(alone.variance(kept).variance)
    assert some.variance(values).freedom == pytest.approx(2)


def test_a_ratio_has_the_variance_of_its_linearisation():
    random = np.random.default_rng(3)
    weight = random.random(400)
    values = weight * random.random(400)
    drawn = random.integers(0, 400, (4000, 400))
    replicates = values[drawn].sum(axis=1) / weight[drawn].sum(axis=1)
    assert Questions(weight).variance(values).variance == pytest.approx(replicates.var(), rel=0.1)


def test_with_one_training_the_interval_is_the_paired_one_over_questions():
    run = {"base": np.random.default_rng(4).random((1, 40)), "a": np.random.default_rng(5).random((1, 40))}
    found, test = crossed(run).difference("a", "base"), ttest_1samp((run["a"] - run["base"])[0], 0.0)
    assert found.seeds == (1, 0)
    assert np.isnan(found.of_seeds)
    assert found.interval(0.9) == pytest.approx(tuple(test.confidence_interval(0.9)))
    assert found.p == pytest.approx(test.pvalue)


def test_where_questions_agree_the_test_is_students_over_seeds():
    """Two methods whose every seed has one value for all questions: only seeds vary."""
    ours, theirs = np.array([0.5, 0.54, 0.52]), np.array([0.44, 0.5, 0.47])
    run = {"a": np.tile(ours[:, None], 50), "b": np.tile(theirs[:, None], 50)}
    test = ttest_ind(ours, theirs)
    found = crossed(run).difference("a", "b")
    assert found.p == pytest.approx(test.pvalue)
    assert found.freedom == pytest.approx(4)
    # Against a base without a training, where one of three trainings solves nothing.
    alone = crossed({"base": np.ones((1, 50)), "a": np.tile([[1.0], [1.0], [0.0]], 50)}).difference("a", "base")
    assert alone.p == pytest.approx(ttest_1samp([0.0, 0.0, -1.0], 0.0).pvalue)


def test_the_variance_is_that_of_the_pigeonhole_bootstrap():
    """Owen and Eckles (2012): resampling seeds and questions apart, conservative by one v_both / (S Q)."""
    run = simulated(seeds=8, number=300, methods=("a", "b"), seed_sd=0.03)
    random = np.random.default_rng(6)
    replicates = []
    for _ in range(2000):
        questions = random.integers(0, 300, 300)
        means = [rows[random.integers(0, 8, 8)][:, questions].mean() for rows in run.values()]
        replicates.append(means[0] - means[1])
    found = crossed(run).difference("a", "b")
    both = found.of_both / (8 * 300)
    # Resampling 8 seeds shows 7/8 of their variance.
    expected = found.error**2 - found.of_seeds / 8 / 8 + both
    assert np.var(replicates) == pytest.approx(expected, rel=0.15)


def test_a_seed_variance_of_zero_leaves_the_interval_over_questions():
    run = simulated(seed_sd=0.0, seed=11)
    found = crossed(run).difference("a", "b")
    if found.of_seeds == 0.0:
        differences = run["a"].mean(axis=0) - run["b"].mean(axis=0)
        assert found.p == pytest.approx(ttest_1samp(differences, 0.0).pvalue)
    assert found.of_seeds < 0.01**2


def test_alike_seed_variances_are_pooled_and_unlike_ones_are_not():
    alike = {"a": np.array([0.1, 0.2, 0.3]), "b": np.array([0.5, 0.6, 0.8]), "c": np.array([0.5])}
    nothing = dict.fromkeys(alike, 0.0)
    spreads = seed_spreads(alike, nothing)
    assert spreads["a"] == spreads["b"] == spreads["c"]
    assert spreads["a"].mean_square == pytest.approx((0.01 + np.var([0.5, 0.6, 0.8], ddof=1)) / 2)
    assert spreads["a"].freedom == 4
    unlike = {"a": np.array([0.1, 0.2, 0.3, 0.15]), "b": np.array([0.5, 0.501, 0.502, 0.5]), "c": np.array([0.5])}
    apart = seed_spreads(unlike, nothing)
    assert {name: (spread.freedom, spread.pooled) for name, spread in apart.items()} == {
        "a": (3, False),
        "b": (3, False),
    }
    assert seed_spreads({"a": np.array([0.1])}, {"a": 0.0}) == {}


def test_a_method_that_does_not_vary_is_not_pooled_with_one_that_does():
    assert not seed_spreads({"a": np.array([0.1, 0.2]), "b": np.array([0.5, 0.5])}, {"a": 0.0, "b": 0.0})["a"].pooled


def test_where_nothing_varies_there_is_no_interval():
    found = crossed({"base": np.full((1, 9), 0.5), "a": np.full((3, 9), 0.75)}).difference("a", "base")
    assert found.value == 0.25
    assert np.isnan([found.error, found.p, *found.interval(0.95)]).all()


@given(st.randoms())
def test_the_order_of_seeds_and_questions_changes_nothing(random):
    run = simulated(number=20)
    shuffled = list(range(20))
    random.shuffle(shuffled)
    moved = {name: rows[::-1][:, shuffled] for name, rows in run.items()}
    for method, against in (("a", "b"), ("b", "c")):
        before, after = (crossed(one).difference(method, against) for one in (run, moved))
        assert after.value == pytest.approx(before.value)
        assert after.error == pytest.approx(before.error)
        assert after.freedom == pytest.approx(before.freedom)


def test_an_average_over_datasets_has_a_quarter_of_the_sum_of_their_variances():
    first, second = simulated(seeds=1, number=80, seed=1), simulated(seeds=1, number=30, seed=2)
    questions = [Questions(np.ones(80)), Questions(np.ones(30))]
    both = Crossed({name: [first[name], second[name]] for name in first}, questions, ())
    alone = [crossed(one).difference("a", "b") for one in (first, second)]
    found = both.difference("a", "b")
    assert found.value == pytest.approx((alone[0].value + alone[1].value) / 2)
    assert found.error**2 == pytest.approx((alone[0].error ** 2 + alone[1].error ** 2) / 4)
    assert both.number == 110


def test_the_detectable_differences_are_those_of_the_method():
    """METHOD 15.3: 2.1, 16 and 14 points, six methods."""
    table = {(3, 300): 6.1, (5, 300): 4.9, (5, 600): 4.4, (8, 600): 3.6, (10, 1200): 3.0}
    parts = (2 * 2.1**2, 16.0**2, 14.0**2)
    for (seeds, questions), points in table.items():
        error = np.sqrt(parts[0] / seeds + parts[1] / questions + parts[2] / (seeds * questions))
        freedom = 6 * (seeds - 1)
        assert detectable(error, freedom, 0.05) == pytest.approx(points, abs=0.07)
    # 12 seeds find 3.64 points, 13 find 3.56. However many questions, five seeds do not find 3.6 points, but 4.
    assert sizes_needed(parts, 24.0, 5, 300, 3.6, 0.05) == (13, None)
    assert sizes_needed(parts, 24.0, 5, 300, 4.4, 0.05)[1] == pytest.approx(600, rel=0.05)


def test_one_question_has_no_interval():
    weight = np.array([0.0, 1.0, 0.0])
    found = crossed({"base": np.full((1, 3), 0.5) * weight, "a": np.ones((2, 3)) * weight}, Questions(weight))
    difference = found.difference("a", "base")
    assert difference.value == 0.5
    assert np.isnan([difference.error, difference.p, difference.of_questions]).all()
