"""The rule of the diagnosis, point by point; estimates against enumeration."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

from dphrl.evaluation import diagnosis as rule
from dphrl.evaluation.chosen import look_chosen
from dphrl.evaluation.diagnosis import decide, diagnosis_k, hotter, together
from dphrl.evaluation.exchange import exchanged
from dphrl.evaluation.paired import paired_difference
from dphrl.evaluation.study import Policy, PolicyKey
from dphrl.evaluation.variety import Variety
from dphrl.report.sentences import five_lines, variety_sentence


def policy(c, n=8, clusters=None, seed=0):
    """A policy with c right samples of n; the right ones are spread over the samples."""
    rows = pl.DataFrame({"prompt_id": range(len(c)), "n": np.broadcast_to(n, len(c)), "c": np.asarray(c)})
    if clusters is not None:
        rows = rows.with_columns(cluster=pl.Series(clusters).cast(pl.String))
    return Policy(PolicyKey("tuned", seed, 0, "d"), rows)


def words(base, *tuned, k=4, margin=0.05, **found):
    return decide(policy(base), [policy(one) for one in tuned], k, margin, **found)


@pytest.mark.parametrize(
    ("sizes", "k"),
    [
        ([1] * 9, 1),
        ([2] * 9, 2),
        ([3] * 9, 2),
        ([4] * 9, 2),
        ([7] * 9, 2),
        ([8] * 9, 4),
        ([64] * 300, 32),
        # One question with one sample left is left out; a third of the questions lower K.
        ([64] * 299 + [1], 32),
        ([64] * 200 + [16] * 100, 16),
        ([64] * 200 + [1] * 100, 1),
    ],
)
def test_k_is_at_most_half_of_the_samples(sizes, k):
    assert diagnosis_k(np.array(sizes)) == k


def test_one_sample_of_a_question_refuses():
    found = words([8] * 50 + [0] * 50, [0] * 100, k=1)
    assert (found.word, found.reasons) == ("CANNOT TELL", ("one sample",))


def test_the_lower_end_is_that_with_two_pseudo_questions():
    """Differences of +-5 points on 100 questions, and -1 and +1: t(101) is 1.660."""
    found = paired_difference(np.zeros(100), np.tile([0.05, -0.05], 50))
    assert found.narrow[0] == pytest.approx(-1.660 * np.sqrt((100 * 0.05**2 + 2) / 101 / 102), abs=1e-4)
    assert found.narrow[1] == pytest.approx(1.660 * np.sqrt(100 * 0.05**2 / 99 / 100), abs=1e-4)


def test_pseudo_groups_have_the_mean_size_of_groups():
    """10 groups of 10 questions: 12 groups of 10, two of them at -1 and +1; t(11) is 1.796."""
    values, groups = np.repeat([0.1, -0.1] * 5, 10), np.repeat(np.arange(10), 10)
    found = paired_difference(np.zeros(100), values, groups)
    assert (found.groups, found.questions) == (10, 100)
    means = np.concatenate([[0.1, -0.1] * 5, [-1.0, 1.0]])
    assert found.narrow[0] == pytest.approx(-1.796 * means.std(ddof=1) / np.sqrt(12), abs=2e-3)


@pytest.mark.parametrize(
    ("base", "tuned", "reason"),
    [
        # 2 of 100 questions solved, both lost, is no health; nor is everything solved, nor nothing.
        ([8] * 2 + [0] * 98, [0] * 100, "too hard"),
        ([8] * 100, [8] * 100, "ceiling"),
        ([0] * 100, [0] * 100, "nothing solved"),
    ],
)
def test_health_is_not_seen_where_nothing_could_be(base, tuned, reason):
    found = words(base, tuned)
    assert (found.word, found.reasons) == ("CANNOT TELL", (reason,))


def test_hard_questions_can_show_a_loss():
    assert words([8] * 8 + [0] * 92, [0] * 100, margin=0.05).word == "WORSE"
    assert words([8] * 8 + [0] * 92, [0] * 100, margin=0.05).reasons == ("too hard",)


def test_what_lower_accuracy_explains_is_the_coverage_of_a_thinned_base():
    """Enumerated: each right sample of the base stays right with the ratio of the accuracies."""
    base, tuned, k, n = [1, 3, 4, 2, 0], [1, 1, 2, 1, 0], 2, 4
    found = decide(policy(base, n), [policy(tuned, n)], k, 0.05)
    theta = sum(tuned) / sum(base)
    expected = []
    for c in base:
        right = [True] * c + [False] * (n - c)
        chances = []
        for draw in combinations(range(n), k):
            for kept in product([0, 1], repeat=k):
                weight = np.prod([theta if one else 1 - theta for one in kept])
                chances.append(weight * any(right[i] and one for i, one in zip(draw, kept, strict=True)))
        expected.append(sum(chances) / len(list(combinations(range(n), k))))
    before = policy(base, n).pass_at([k])[:, 0].mean()
    assert found.explained == pytest.approx(np.mean(expected) - before)
    assert found.explained + found.rest.value == pytest.approx(found.coverage.value)


def test_words_of_losses():
    """Half of the questions lost at equal accuracy; every question solved half as often."""
    base = [4] * 200
    lost = words(base, [8] * 100 + [0] * 100)
    assert (lost.word, lost.accuracy.value, lost.coverage.value) == ("COLLAPSED", 0.0, pytest.approx(-0.4857, abs=1e-3))
    random = np.random.default_rng(0)
    rates = random.beta(0.8, 1.2, 400)
    proportional = words(random.binomial(8, rates), random.binomial(8, 0.5 * rates))
    assert proportional.word == "WORSE"
    assert "lower accuracy explains" in five_lines(proportional)[2]


def test_the_share_of_misjudged_samples_that_explains_a_loss():
    """Without a share r of mistakes, pass@k is 1 - (1 - P) / (1 - r)^k: the end of the interval is 0 then."""
    found = words([1] * 100 + [8] * 100 + [0] * 100, [0] * 100 + [8] * 100 + [0] * 100)
    assert found.word == "COLLAPSED"
    without = 1.0 - (1.0 - found.coverage.base) / (1.0 - found.tipping) ** found.k
    assert found.coverage.base - without == pytest.approx(-found.coverage.wide[1])
    # Of 1,600 wrong samples 100 are right: more than one in a hundred.
    assert not found.tips
    assert words([8] * 200, [8] * 200).tipping is None


def test_a_loss_that_few_misjudged_samples_explain_is_doubted():
    """Of 600 unsolved questions with 32 samples, one in ten has one sample that counts by mistake."""
    base = [1] * 120 + [32] * 400 + [0] * 480
    found = decide(policy(base, 32), [policy([0] * 120 + base[120:], 32)], 16, 0.05)
    assert (found.word, found.tips) == ("COLLAPSED", True)
    assert "% of the base's wrong samples were right by mistake" in five_lines(found, ["another."])[3]


def test_exchange_is_said_with_every_word():
    """50 questions lost and 50 gained of 400; then 150 lost and 50 gained."""
    found = words([8] * 200 + [0] * 200, [0] * 50 + [8] * 200 + [0] * 150)
    exchange = found.exchange
    assert (found.word, exchange.kept, exchange.lost, exchange.gained) == ("NOT COLLAPSED", 150.0, 50.0, 50.0)
    assert "25.0 % of the questions that the base solves were exchanged" in five_lines(found)[0]
    base = [8] * 200 + [0] * 200
    both = words(base, [0] * 150 + [8] * 100 + [0] * 150)
    only_lost = words(base, [0] * 150 + [8] * 50 + [0] * 200)
    assert (both.word, only_lost.word) == ("COLLAPSED", "COLLAPSED")
    assert "75.0 % of the questions that the base solves were exchanged" in five_lines(both)[0]
    assert "exchanged" not in five_lines(only_lost)[0]


def test_falls_by_chance_by_enumeration():
    """The right samples of both files in all orders, 4 of the base and 2 of the tuned model; k = 2."""
    base, tuned, k = [2, 0, 4], [1, 1, 2], 2
    falls = []
    for right in (c + d for c, d in zip(base, tuned, strict=True)):
        fell = []
        for places in combinations(range(6), right):
            before = np.mean([any(place in places for place in drawn) for drawn in combinations(range(4), k)])
            fell.append(before - float(bool({4, 5} & {*places})) > 0.5)
        falls.append(np.mean(fell))
    found = exchanged(policy(base, 4).counts, policy(tuned, 2).counts[None], k, None)
    assert found.fallen.value == pytest.approx(np.mean(falls))
    # pass@4 - pass@2 of the question with 2 of 4 samples right: 1 - 5/6.
    assert (found.lost, found.chance) == (0.0, pytest.approx(1 / 6))


def test_a_loss_that_guesses_explain_is_refused():
    base, tuned = [4] * 100, [8] * 50 + [0] * 50
    assert words(base, tuned, guesses=(0.5, 0.2)).word == "CANNOT TELL"
    assert words(base, tuned, guesses=(0.5, 0.2)).reasons == ("guesses",)
    assert words(base, tuned, guesses=(0.2, 0.1)).word == "COLLAPSED"
    # Without a loss there is nothing to explain.
    assert words(base, base, guesses=(0.5, 0.2)).word == "NOT COLLAPSED"


def test_questions_that_the_samples_chose_are_seen():
    random = np.random.default_rng(0)
    rates = random.beta(0.5, 0.8, 2000)
    c = random.binomial(16, rates)
    n = np.full(300, 16)
    assert not look_chosen(n, c[:300])
    assert look_chosen(n, c[c > 0][:300])
    assert look_chosen(n, c[(c > 0) & (c < 16)][:300])
    assert not look_chosen(np.full(300, 2), c[:300].clip(0, 2))
    found = words([4] * 100, [0] * 100, chosen=True)
    assert (found.word, found.reasons) == ("CANNOT TELL", ("chosen questions",))


def test_a_loss_that_choosing_explains_is_refused():
    """30 questions with 1 of 8 right hide 30 x 4 / 8 = 15 that 4 samples would solve; the loss is 15 of 100."""
    base, after = [1] * 30 + [8] * 70, [0] * 30 + [8] * 70
    found = words(base, after)
    assert found.coverage.value == pytest.approx(-0.15)
    assert (found.word, found.reasons) == ("CANNOT TELL", ("chosen questions",))
    # With an unsolved question in the file nothing is hidden.
    assert words([*base, 0], [*after, 0]).word == "COLLAPSED"
    # A larger loss is not explained.
    assert words(base, [0] * 60 + [8] * 40).word == "COLLAPSED"


def test_intervals_are_over_groups_where_there_are_groups():
    """6 of 12 databases lose everything: over 240 questions a sure loss, over 12 groups the same mean, wider."""
    base, tuned = [8] * 240, [8, 8] * 60 + [0] * 120
    groups = np.repeat(np.arange(12), 20)
    alone = decide(policy(base), [policy(tuned)], 4, 0.05).coverage
    over = decide(policy(base, clusters=groups), [policy(tuned, clusters=groups)], 4, 0.05).coverage
    assert (alone.value, over.value, alone.groups, over.groups) == (-0.5, -0.5, None, 12)
    assert over.wide[1] - over.wide[0] > 4 * (alone.wide[1] - alone.wide[0])


def test_exit_3_takes_a_loss_that_holm_confirms():
    """A loss with p between 0.025 and 0.05: alone it counts, next to another file it does not."""
    lost, gained, both = 11, 2, 187
    base = [8] * (lost + both) + [0] * gained
    tuned = [0] * lost + [8] * (both + gained)
    found = decide(policy(base), [policy(tuned)], 4, 0.05)
    assert found.word in rule.LOSSES
    assert 0.005 < found.coverage.p < 0.025
    assert together([found])[1] == 3
    diagnoses, code = together([found, *[words(base, base)] * 9])
    assert (code, diagnoses[0].word) == (4, found.word)


def test_several_trainings_are_one_model():
    """Four trainings lose a quarter, one nothing: each is kept, and the interval is wider than over questions."""
    base = [8] * 100 + [0] * 100
    tuned = [[0] * 50 + [8] * 50 + [0] * 100] * 3 + [base] * 2
    found = decide(policy(base), [policy(one, seed=seed) for seed, one in enumerate(tuned)], 4, 0.05)
    assert found.trainings == (-0.25, -0.25, -0.25, 0.0, 0.0)
    assert found.coverage.value == pytest.approx(-0.15)
    assert found.word == "CANNOT TELL"
    assert "and 5 trainings (-25.0, -25.0, -25.0, +0.0, +0.0)" in five_lines(found)[1]


def test_hotter_files_recover_a_loss_or_do_not():
    base, cold = [4] * 200, [8] * 100 + [0] * 100
    found = words(base, cold)
    assert found.word == "COLLAPSED"
    warm = hotter(found, policy(base), {"T1.3": [policy(cold)], "T1.6": [policy([4] * 200)]}, seed=0)
    assert (warm.word, warm.hotter.chosen, warm.hotter.recovers) == ("SHARPENED", ("T1.6", "T1.6"), True)
    assert hotter(found, policy(base), {"T1.3": [policy(cold)]}, seed=0).word == "COLLAPSED"
    # A loss of accuracy is not repaired.
    worse = words(base, [6] * 80 + [0] * 120)
    assert hotter(worse, policy(base), {"T1.6": [policy([4] * 200)]}, seed=0).word == worse.word


def test_questions_that_are_lost_at_every_temperature_are_not_recovered():
    """A tenth of the questions is lost; hotter, as many others are gained, so that pass@k does not fall."""
    base = [8] * 200 + [0] * 200
    cold, hot = [0] * 40 + [8] * 160 + [0] * 200, [0] * 40 + [8] * 200 + [0] * 160
    found = decide(policy([4] * 200 + [0] * 200), [policy(cold)], 4, 0.05)
    assert found.word == "COLLAPSED"
    warm = hotter(found, policy(base), {"T1.6": [policy(hot)]}, seed=0)
    assert (warm.word, warm.hotter.coverage.value, warm.hotter.exchange.lost) == ("COLLAPSED", 0.0, 40.0)


def variety(base, tuned, wide):
    difference = replace(paired_difference(np.array(base), np.array([tuned]), shares=False), wide=wide)
    return Variety("programs", 8, difference)


@pytest.mark.parametrize(("high", "narrowed"), [(-0.21, True), (-0.19, False)])
def test_a_fall_of_variety_has_its_margin_in_the_interval(high, narrowed):
    """The base has 3 classes: a tenth of its excess over one class is 0.2."""
    assert variety([2.5, 3.5], [2.0, 3.0], (-0.6, high)).narrowed == narrowed


def test_a_difference_that_reads_as_zero_is_no_difference_of_variety():
    found = words([8] * 60, [8] * 60, variety=variety([8.0, 8.0], [8.002, 8.002], (0.001, 0.003)))
    assert variety_sentence(found).startswith("No difference in variety is shown: tuned has 8.00")
