"""The models of docs/why.md: optima against the package's divergences, and small trainings."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dphrl.objective import divergence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "dev"))

from analytic import (  # noqa: E402
    ARMS,
    CHANCES,
    RATIOS,
    SHARES,
    at_gain,
    closed_form,
    dynamics,
    optimum,
    train,
)  # fmt: skip

OPTIONS = {"reverse KL": {"samples": "reference"}, "alpha 0.5": {"alpha": 0.5}}
NAMES = {"reverse KL": "reverse_kl", "alpha 0.5": "alpha", "JS": "js", "forward KL": "forward_kl"}


@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.parametrize("eta", [0.02, 0.3, 5.0])
def test_an_optimum_has_equal_marginal_values_for_all_answers(name: str, eta: float) -> None:
    policy = optimum(name, eta, SHARES, CHANCES)
    form = divergence(NAMES[name], l_cap=50.0, **OPTIONS.get(name, {}))
    # g = u f'(u), and f' is the derivative of the divergence by the policy's chance.
    ratio = policy / SHARES
    slope = form.gradient(torch.from_numpy(np.log(ratio))).numpy() / ratio
    marginal = CHANCES - eta * slope
    assert marginal == pytest.approx(np.full(5, marginal[0]), abs=1e-6)


def test_with_rewards_of_0_and_1_all_divergences_keep_the_proportions_of_the_base() -> None:
    # Two right answers, three wrong ones.
    reward = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    for name in RATIOS:
        ratio = optimum(name, 0.4, SHARES, reward) / SHARES
        assert ratio[[0, 1]] == pytest.approx(ratio[[2, 3]])
        assert ratio[0] > 1.0 > ratio[1]


def test_the_table_of_the_closed_form_has_no_policy_above_the_best_possible() -> None:
    rows = closed_form(2)[2:]
    assert len(rows) == 5
    for row in rows:
        *values, best = (float(cell.split()[0]) for cell in row.split("|")[3:9])
        assert max(values) <= best + 0.05


def test_a_strong_divergence_holds_the_policy_and_none_lets_it_collapse() -> None:
    free, held = (train(arm, 3.0, 4, 60) for arm in (ARMS["GRPO"], ARMS["forward KL on all"]))
    assert (free[1][:, -1] < 0.85 * free[1][:, 0]).all()
    assert (held[1][:, -1] > 0.9 * held[1][:, 0]).all()
    assert (free[0][:, -1] > held[0][:, -1]).all()
    # The same worlds, so the same base.
    assert np.array_equal(free[1][:, 0], held[1][:, 0])


def test_rehearsal_without_strength_is_training_on_d_exp_alone() -> None:
    rehearsed, alone = (train(ARMS[name], 0.0, 2, 5) for name in ("DPH-F", "D_exp only"))
    assert np.array_equal(rehearsed, alone)


def test_pass_at_16_is_read_where_the_gain_is_first_reached() -> None:
    means = np.array([[0.5, 0.56, 0.6, 0.57], [0.5, 0.51, 0.52, 0.53]])
    covered = np.array([[0.9, 0.8, 0.6, 0.7], [0.9, 0.9, 0.9, 0.9]])
    assert at_gain(means, covered) == pytest.approx([0.7, np.nan], nan_ok=True)


def test_the_table_of_the_dynamics_has_a_row_for_each_arm() -> None:
    assert [row.split("|")[1].strip() for row in dynamics(2, 10)[2:]] == ["base", *ARMS]
