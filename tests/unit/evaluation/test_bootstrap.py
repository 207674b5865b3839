"""Intervals cover what they promise, and tests reject as often as they promise."""

import numpy as np
import pytest

from dphrl.config.blocks.evaluation import BootstrapConfig
from dphrl.evaluation import pass_at_k
from dphrl.evaluation.bootstrap import PromptBootstrap, wilson

CONFIG = BootstrapConfig(replicates=1000)
TRIALS = 3000


def difficulties(generator, prompts):
    """Chance of a right sample on each prompt of each trial: many prompts are easy or hard."""
    return generator.beta(0.6, 0.8, size=(prompts, TRIALS))


def covered(truth, interval):
    _, low, high = interval
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("prompts", [100, 300])
def test_intervals_over_prompts_cover(prompts):
    generator = np.random.default_rng(prompts)
    draws = PromptBootstrap(prompts, "d", CONFIG, 0)
    chances = difficulties(generator, prompts)
    right = generator.binomial(16, chances)
    many = difficulties(generator, 300).ravel()
    assert 0.93 <= covered(many.mean(), draws.ratio(right / 16)) <= 0.97
    assert 0.93 <= covered((1 - (1 - many) ** 8).mean(), draws.ratio(pass_at_k(16, right, 8))) <= 0.97
    greedy = (generator.random(chances.shape) < 0.4).astype(float)
    assert 0.93 <= covered(0.4, draws.ratio(greedy)) <= 0.97


def test_intervals_of_a_rate_among_some_prompts_cover():
    generator = np.random.default_rng(3)
    solved = (generator.random((200, TRIALS)) < 0.6).astype(float)
    kept = solved * (generator.random(solved.shape) < 0.8)
    assert 0.93 <= covered(0.8, PromptBootstrap(200, "d", CONFIG, 0).ratio(kept, solved)) <= 0.97


def test_intervals_over_databases_cover_where_those_over_prompts_do_not():
    generator = np.random.default_rng(4)
    databases = np.repeat(np.arange(25), 8)
    values = generator.normal(size=(25, TRIALS))[databases] + generator.normal(size=(200, TRIALS))
    assert 0.93 <= covered(0.0, PromptBootstrap(200, "d", CONFIG, 0, databases).ratio(values, proportion=False)) <= 0.97
    assert covered(0.0, PromptBootstrap(200, "d", CONFIG, 0).ratio(values, proportion=False)) < 0.75


def test_paired_differences_cover():
    generator = np.random.default_rng(5)
    chances = difficulties(generator, 100)
    ours, theirs = (generator.binomial(16, chances) / 16 for _ in range(2))
    draws = PromptBootstrap(100, "d", CONFIG, 0)
    assert 0.93 <= covered(0.0, draws.ratio(ours - theirs, proportion=False)) <= 0.97


@pytest.mark.parametrize("clusters", [5, 11, 19])
def test_few_clusters_have_the_robust_interval(clusters):
    generator = np.random.default_rng(6)
    sizes = np.arange(1, clusters + 1) * 4
    databases = np.repeat(np.arange(clusters), sizes)
    values = generator.normal(size=(clusters, TRIALS))[databases] / 3 + generator.normal(size=(sizes.sum(), TRIALS))
    draws = PromptBootstrap(sizes.sum(), "d", CONFIG, 0, databases)
    assert 0.93 <= covered(0.0, draws.ratio(values, proportion=False)) <= 0.98
    assert covered(0.0, PromptBootstrap(sizes.sum(), "d", CONFIG, 0).ratio(values, proportion=False)) < 0.9


def test_four_clusters_leave_the_interval_over_prompts():
    values = np.random.default_rng(6).random((40, 2))
    draws = [PromptBootstrap(40, "d", CONFIG, 0, given) for given in (None, np.repeat(np.arange(4), 10))]
    np.testing.assert_array_equal(draws[0].ratio(values), draws[1].ratio(values))


def test_clusters_of_one_prompt_are_prompts():
    values = np.random.default_rng(7).random((30, 2))
    names = np.array([f"d{number:02}" for number in range(30)], dtype=object)
    draws = [PromptBootstrap(30, "d", CONFIG, 0, clusters) for clusters in (None, names)]
    np.testing.assert_allclose(draws[0].ratio(values), draws[1].ratio(values), atol=1e-12)


def test_a_proportion_at_its_end_has_the_bound_of_wilson():
    values = np.array([[0.0, 1.0]] * 30)
    found, low, high = PromptBootstrap(30, "d", CONFIG, 0).ratio(values)
    assert found.tolist() == [0.0, 1.0]
    assert (low[0], high[0]) == wilson(0.0, 30, 0.95)
    assert (low[1], high[1]) == wilson(1.0, 30, 0.95)


def test_a_rate_over_no_prompts_is_not_a_number():
    found = PromptBootstrap(5, "d", CONFIG, 0).ratio(np.zeros((5, 1)), np.zeros((5, 1)))
    assert np.isnan(found).all()


def test_wilson_known_values():
    assert wilson(0.5, 10, 0.95) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0.0, 30, 0.95) == pytest.approx((0.0, 0.1135), abs=1e-4)
    assert wilson(1.0, 30, 0.95) == pytest.approx((0.8865, 1.0), abs=1e-4)
