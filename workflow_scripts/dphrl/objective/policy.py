"""The reward half of the objective: group-relative advantages and the clipped surrogate (arXiv 2509.07430, Eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_STD_EPSILON = 1e-6
_LOG_RATIO_LIMIT = 20.0


def group_advantages(rewards: Tensor) -> Tensor:
    """GRPO advantages (R - mean) / (std + 1e-6) within each group, std with ddof 1.

    Args:
        rewards: (groups, responses per group).

    Returns:
        The same shape; all-equal groups give exactly 0.

    Raises:
        ValueError: fewer than two responses per group.
    """
    if rewards.ndim != 2 or rewards.shape[1] < 2:
        raise ValueError(f"rewards must be (groups, at least 2 responses), got {tuple(rewards.shape)}")
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    equal = (rewards == rewards[:, :1]).all(dim=1, keepdim=True)
    return (centred / (rewards.std(dim=1, keepdim=True) + _STD_EPSILON)).masked_fill(equal, 0.0)


@dataclass(frozen=True)
class PolicyLoss:
    """Per-token results of the clipped surrogate, each of the shape of the log-probs.

    Attributes:
        loss: the token losses, differentiable.
        ratio: pi_theta / pi_old, detached.
        clipped: where the upper or lower clip of the ratio decided.
    """

    loss: Tensor
    ratio: Tensor
    clipped: Tensor


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    eps_low: float,
    eps_high: float,
    dual_clip: float | None,
) -> PolicyLoss:
    """PPO-clip per token: max(-A rho, -A clip(rho, 1 - eps_low, 1 + eps_high)), for A < 0 at most -A * dual_clip.

    Args:
        logprobs: log pi_theta of the response tokens, any shape.
        old_logprobs: log pi_old of the same tokens, without gradient.
        advantages: A of each token.
        dual_clip: the bound c > 1 for negative advantages, None for none.
    """
    ratio = (logprobs - old_logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()
    plain = -advantages * ratio
    clip = -advantages * ratio.clamp(1 - eps_low, 1 + eps_high)
    loss = torch.maximum(plain, clip)
    if dual_clip is not None:
        loss = torch.where(advantages < 0, torch.minimum(loss, -advantages * dual_clip), loss)
    return PolicyLoss(loss, ratio.detach(), (clip > plain).detach())
