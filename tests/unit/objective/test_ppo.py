"""The reward half: advantages, the shaping of rewards, the clipped surrogate, and the sampler's mismatch."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dphrl.objective import policy_loss
from dphrl.objective.advantages import group_advantages, overlong_penalty
from dphrl.objective.importance import mismatch, tis_weights

F64 = torch.float64


def test_advantages_vector() -> None:
    rewards = torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=F64)
    found = group_advantages(rewards)
    # std with ddof 1 is sqrt(1/3).
    exact = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert found[0].tolist() == pytest.approx([exact, -exact, -exact, exact], abs=1e-12)
    assert exact == pytest.approx(0.866024, abs=1e-6)
    assert found[1:].tolist() == [[0.0] * 4] * 2


def test_equal_rewards_that_are_no_binary_fraction_give_exactly_zero() -> None:
    assert group_advantages(torch.full((1, 7), 0.1, dtype=torch.float32)).tolist() == [[0.0] * 7]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4), min_size=1, max_size=5))
def test_advantages_are_centred_within_their_own_group(rewards: list[list[float]]) -> None:
    found = group_advantages(torch.tensor(rewards, dtype=F64))
    assert found.sum(dim=1).abs().max() < 1e-9
    alone = torch.cat([group_advantages(torch.tensor([group], dtype=F64)) for group in rewards])
    torch.testing.assert_close(found, alone)


def test_without_std_the_advantage_is_the_centred_reward() -> None:
    rewards = torch.tensor([[1, 0, 0, 0], [0.1, 0.1, 0.1, 0.1]], dtype=torch.float32)
    assert group_advantages(rewards, std=False).tolist() == [[0.75, -0.25, -0.25, -0.25], [0.0] * 4]


def test_overlong_penalty_falls_over_the_buffer() -> None:
    lengths = torch.tensor([0, 15, 16, 17, 18, 20, 25])
    assert overlong_penalty(lengths, max_tokens=20, buffer=4).tolist() == [0, 0, 0, -0.25, -0.5, -1, -1]


def _loss(advantage: float, rho: float, *, dual_clip: float | None = 3.0) -> tuple[Any, bool]:
    """Loss with its gradient by the log-prob, and whether it was clipped."""
    logprob = torch.tensor([math.log(rho) - 1.5], dtype=F64, requires_grad=True)
    result = policy_loss(
        logprob,
        torch.tensor([-1.5], dtype=F64),
        torch.tensor([advantage], dtype=F64),
        eps_low=0.2,
        eps_high=0.28,
        dual_clip=dual_clip,
    )
    assert result.ratio.item() == pytest.approx(rho)
    assert not result.ratio.requires_grad
    (gradient,) = torch.autograd.grad(result.loss.sum(), logprob)
    return (result.loss.item(), gradient.item()), bool(result.clipped.item())


@pytest.mark.parametrize(
    ("advantage", "rho", "loss", "gradient", "clipped"),
    [
        (1, 1.5, -1.28, 0, True),
        (1, 0.5, -0.5, -0.5, False),
        (1, 1.0, -1.0, -1.0, False),
        (-1, 0.5, 0.8, 0, True),
        (-1, 2.0, 2.0, 2.0, False),
        (-1, 5.0, 3.0, 0, False),
        (0, 1.5, 0.0, 0, False),
    ],
)
def test_policy_loss_vectors(advantage: float, rho: float, loss: float, gradient: float, clipped: bool) -> None:
    assert _loss(advantage, rho) == (pytest.approx((loss, gradient)), clipped)


def test_without_dual_clip_a_negative_advantage_is_unbounded() -> None:
    assert _loss(-1, 5.0, dual_clip=None) == (pytest.approx((5.0, 5.0)), False)


@pytest.mark.parametrize("log_ratio", [-1e4, -20.0, 20.0, 1e4])
def test_extreme_ratios_stay_finite(log_ratio: float) -> None:
    logprob = torch.tensor([log_ratio], requires_grad=True)
    for advantage in (-1.0, 1.0):
        result = policy_loss(
            logprob, torch.zeros(1), torch.tensor([advantage]), eps_low=0.2, eps_high=0.28, dual_clip=None
        )
        (gradient,) = torch.autograd.grad(result.loss.sum(), logprob)
        assert result.loss.isfinite().all()
        assert gradient.isfinite().all()


def test_weights_scale_the_token_losses_and_carry_no_gradient() -> None:
    logprobs = torch.tensor([-1.0, -2.0], dtype=F64, requires_grad=True)
    old, advantages = logprobs.detach() - 0.05, torch.tensor([1.0, -0.5], dtype=F64)
    weights = torch.tensor([0.25, 2.0], dtype=F64, requires_grad=True)
    plain, weighted = (
        policy_loss(logprobs, old, advantages, eps_low=0.2, eps_high=0.28, dual_clip=3.0, weights=w)
        for w in (None, weights)
    )
    assert torch.equal(weighted.loss, weights * plain.loss)
    assert torch.equal(weighted.ratio, plain.ratio)
    assert torch.autograd.grad(weighted.loss.sum(), weights, allow_unused=True) == (None,)


def test_tis_weights_are_the_ratio_up_to_the_cap() -> None:
    old = torch.tensor([-1.0, -1.0, -1.0, -1e4, 0.0], dtype=F64, requires_grad=True)
    sampler = torch.tensor([-1.0, -1.5, -9.0, 0.0, -1e4], dtype=F64)
    found = tis_weights(old, sampler, cap=2.0)
    assert found.tolist() == pytest.approx([1.0, math.exp(0.5), 2.0, 0.0, 2.0])
    assert not found.requires_grad


def test_mismatch_vector() -> None:
    old = torch.tensor([[0.0, math.log(2)], [-math.log(2), 0.0]])
    found = mismatch(old, torch.zeros(2, 2))
    assert found.mean == pytest.approx(math.log(2) / 2, abs=1e-7)
    assert found.max == pytest.approx(math.log(2), abs=1e-7)
    # Weights 1, 2, 1/2, 1: 4.5^2 / (4 * 6.25).
    assert found.ess == pytest.approx(0.81, abs=1e-6)


def test_equal_log_probs_have_no_mismatch_and_far_ones_stay_finite() -> None:
    same = torch.tensor([-3.0, -0.1])
    assert mismatch(same, same) == mismatch(same.double(), same)
    assert (mismatch(same, same).mean, mismatch(same, same).max) == (0.0, 0.0)
    assert mismatch(same, same).ess == pytest.approx(1.0)
    assert mismatch(torch.tensor([0.0, -1e4]), torch.tensor([-1e4, 0.0])).ess == pytest.approx(0.5)
