"""Where a loss sits: exact chances, sums, and no loss between two draws of one base."""

from itertools import combinations

import made_evaluations
import numpy as np
import polars as pl
import pytest

from dphrl.evaluation.against_base import strata
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.interval import Questions, difference
from dphrl.evaluation.names import BASE_ITSELF, STRATA


def policy(right, n):
    """The only policy of a study, with these numbers of right samples."""
    correct = np.arange(n) < np.asarray(right)[:, None]
    return made_evaluations.study(made_evaluations.evaluation(correct), (1,)).policies[0]


def test_the_chances_are_those_of_all_ways_to_halve_the_samples():
    n, right, k = 7, [0, 1, 2, 4, 7], 2
    found = strata(policy(right, n), k)
    for question, c in enumerate(right):
        chances = {name: [0.0, 0.0] for name in STRATA}
        ways = [*combinations(range(n), n // 2)]
        for first in ways:
            a = sum(sample < c for sample in first)
            # With three samples none is in up to an eighth of them.
            name = "never" if a == 0 else "sometimes" if 2 * a <= 3 else "mostly"
            chances[name][0] += 1 / len(ways)
            chances[name][1] += pass_at_k(n - n // 2, c - a, k) / len(ways)
        for name, expected in chances.items():
            assert [part[question] for part in found[name]] == pytest.approx(expected)


def test_of_sixteen_samples_one_half_decides():
    """Of eight samples: none, one, two to four, more."""
    found = strata(policy([0, 16], 16), 8)
    assert [[*parts[0]] for parts in found.values()] == [[1, 0], [0, 0], [0, 0], [0, 1]]
    one = strata(policy([1], 16), 8)
    assert {name: parts[0][0] for name, parts in one.items() if parts[0][0]} == pytest.approx(
        {"never": 0.5, "rarely": 0.5}
    )


def test_the_losses_add_up_to_the_whole_difference():
    draw = np.random.default_rng(3)
    chances = draw.beta(0.5, 0.8, size=90)
    base, tuned = (draw.random((90, 16)) < p[:, None] for p in (chances, chances**2))
    frames = [made_evaluations.evaluation(base), made_evaluations.evaluation(tuned, "grpo", seed=1, step=8)]
    study = made_evaluations.study(pl.concat(frames), (1, 8))
    table = comparisons(study).filter(method="grpo")
    rows = {row["metric"]: row for row in table.iter_rows(named=True)}
    shares = {name: parts[0].mean() for name, parts in strata(study.policies[0], 8).items()}
    assert sum(rows[f"{name}@8"]["difference"] * share for name, share in shares.items()) == pytest.approx(
        rows["pass@8"]["difference"]
    )
    assert {name: rows[f"{name}@8"]["questions"] for name in STRATA} == {
        name: round(90 * share) for name, share in shares.items()
    }
    assert {rows[f"{name}@8"]["against"] for name in STRATA} == {BASE_ITSELF}
    assert sum(shares.values()) == pytest.approx(1.0)


def test_two_draws_of_one_base_lose_in_no_stratum_more_often_than_intervals_miss():
    """Two-sided 95 % intervals are below 0 in 2.5 % of studies. Chosen and measured by one draw, most are."""
    draw, runs, questions, k = np.random.default_rng(1), 400, 200, 8
    lost, regressed = np.zeros(len(STRATA)), np.zeros(len(STRATA))
    for _ in range(runs):
        chances = draw.beta(0.4, 0.6, size=questions)
        base, again = (policy(draw.binomial(16, chances), 16) for _ in range(2))
        passed = again.pass_at([k])[:, 0]
        for place, (inside, solved) in enumerate(strata(base, k).values()):
            estimate = difference([(inside * passed)[None]], [solved[None]], [Questions(inside)])
            lost[place] += estimate.interval(0.95)[1] < 0
        rates = base.solve_rates
        chosen = np.sum([rates > 0, rates > 1 / 8, rates > 1 / 2], axis=0)
        for place in range(1, len(STRATA)):
            inside = (chosen == place).astype(float)
            gap = inside * (passed - base.pass_at([k])[:, 0])
            regressed[place] += difference([gap[None]], [0 * gap[None]], [Questions(inside)]).interval(0.95)[1] < 0
    assert (lost / runs < 0.025 + 3 * np.sqrt(0.025 * 0.975 / runs)).all()
    assert (regressed[1:3] / runs > 0.2).all()
