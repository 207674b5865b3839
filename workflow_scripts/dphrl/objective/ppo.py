"""The clipped policy loss (arXiv 2509.07430, Eq. 5, as in the released code)."""

from dataclasses import dataclass

import torch
from torch import Tensor

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class PolicyLoss:
    """Per-token results of the clipped surrogate, each of the shape of the log-probs.

    Attributes:
        loss: the token losses, differentiable.
        ratio: pi_theta / pi_old, detached.
        clipped: where the clipped ratio gives the larger loss.
    """

    loss: Tensor
    ratio: Tensor
    clipped: Tensor


def policy_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """rho = pi_theta / pi_old per token, between exp(-20) and exp(20)."""
    return (logprobs - old_logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    eps_low: float,
    eps_high: float,
    dual_clip: float | None,
    weights: Tensor | None = None,
) -> PolicyLoss:
    """PPO-clip per token: max(-A rho, -A clip(rho, 1 - eps_low, 1 + eps_high)), for A < 0 at most -A * dual_clip.

    Args:
        logprobs: log pi_theta of the response tokens, any shape; rho is its ratio to pi_old.
        old_logprobs: log pi_old of the same tokens, without gradient.
        advantages: A of each token.
        eps_high: larger than eps_low in DAPO (clip-higher).
        dual_clip: above 1; None for no such bound.
        weights: factor of each token loss, such as `tis_weights`; None for 1.
    """
    ratio = policy_ratio(logprobs, old_logprobs)
    plain = -advantages * ratio
    clip = -advantages * ratio.clamp(1 - eps_low, 1 + eps_high)
    loss = torch.maximum(plain, clip)
    if dual_clip is not None:
        loss = torch.where(advantages < 0, torch.minimum(loss, -advantages * dual_clip), loss)
    if weights is not None:
        loss = weights.detach() * loss
    return PolicyLoss(loss, ratio.detach(), (clip > plain).detach())
