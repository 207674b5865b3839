"""The reward half: advantages, the clipped surrogate, and how both halves become one loss."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dphrl.objective import component_weights, group_advantages, policy_loss

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


@pytest.mark.parametrize("shape", [(4,), (2, 1), (2, 2, 2)])
def test_advantages_need_groups(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least 2 responses"):
        group_advantages(torch.zeros(shape))


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


def _aggregate(exploration: list[list[float]], rehearsal: list[list[float]], eta: float, norm: str) -> float:
    rows, tokens = zip(*((len(part), sum(map(len, part))) for part in (exploration, rehearsal)), strict=True)
    weights = component_weights(rows, tokens, eta, norm)  # type: ignore[arg-type]
    return weights.exploration * sum(map(sum, exploration)) + weights.rehearsal * sum(map(sum, rehearsal))


def test_the_mean_is_over_tokens_not_over_sequences() -> None:
    sequences = [[1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    assert _aggregate(sequences, [], 0.0, "separate") == pytest.approx(1 / 3)
    assert _aggregate(sequences, [], 0.0, "joint") == pytest.approx(1 / 3)
    assert _aggregate([[0.0]], sequences, 1.0, "separate") == pytest.approx(1 / 3)


def test_separate_adds_the_two_means() -> None:
    assert _aggregate([[1.0, 3.0], [2.0]], [[5.0], [7.0, 9.0]], 0.5, "separate") == pytest.approx(2 + 0.5 * 7)


def test_joint_weighs_the_means_by_rows() -> None:
    found = _aggregate([[1.0, 3.0], [2.0], [2.0]], [[5.0, 9.0, 7.0]], 0.5, "joint")
    assert found == pytest.approx((3 * 2 + 0.5 * 1 * 7) / 4)


@pytest.mark.parametrize("eta", [0.01, 0.2])
def test_at_eight_to_one_joint_rehearses_with_an_eighth_of_eta(eta: float) -> None:
    rows, tokens = (128 * 16, 256), (400_000, 20_000)
    joint, separate = (component_weights(rows, tokens, eta, norm) for norm in ("joint", "separate"))
    assert joint.rehearsal / joint.exploration == pytest.approx(separate.rehearsal / separate.exploration / 8)
    assert joint.rehearsal * tokens[1] / (joint.exploration * tokens[0]) == pytest.approx(eta / 8)
    assert joint.exploration * tokens[0] == pytest.approx(8 / 9)


def test_eta_zero_is_exploration_alone() -> None:
    rows, tokens = (16, 2), (300, 20)
    alone = component_weights((16, 0), (300, 0), 0.0, "separate")
    assert component_weights(rows, tokens, 0.0, "separate") == alone
    joint = component_weights(rows, tokens, 0.0, "joint")
    assert joint.rehearsal == 0.0
    assert joint.exploration * 18 / 16 == pytest.approx(alone.exploration)


@pytest.mark.parametrize("norm", ["joint", "separate"])
def test_a_part_without_tokens_weighs_nothing(norm: str) -> None:
    assert component_weights((0, 4), (0, 9), 1.0, norm).exploration == 0.0  # type: ignore[arg-type]
    assert component_weights((4, 0), (9, 0), 1.0, norm).rehearsal == 0.0  # type: ignore[arg-type]


def test_before_an_update_the_surrogate_is_the_policy_gradient() -> None:
    logits = torch.tensor([1.0, -0.3, 0.2], dtype=F64, requires_grad=True)
    advantages = torch.tensor([0.5, -1.0, 2.0], dtype=F64)

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, logits, retain_graph=True)[0]

    logprobs = logits.log_softmax(0)
    result = policy_loss(logprobs, logprobs.detach(), advantages, eps_low=0.2, eps_high=0.28, dual_clip=3.0)
    assert not result.clipped.any()
    torch.testing.assert_close(
        gradient(result.loss.sum()), gradient(-(advantages * logprobs).sum()), atol=1e-15, rtol=0
    )
