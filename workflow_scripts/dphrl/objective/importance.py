"""Weights for samples of another policy, the sampler's or pi_old, and how far sampler and trainer differ."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dphrl.objective.ppo import policy_ratio

OffPolicy = Literal["weight", "differentiate"]


@dataclass(frozen=True)
class Mismatch:
    """Result of `mismatch`.

    Attributes:
        mean: mean |log pi_old - log pi_sampler|, in nats.
        max: the largest, in nats.
        ess: effective sample size of the untruncated weights pi_old / pi_sampler, as a share of the tokens; 1: equal.
    """

    mean: float
    max: float
    ess: float


def mismatch(old_logprobs: Tensor, sampler_logprobs: Tensor) -> Mismatch:
    """Compare the trainer's and the sampler's log-probs of the sampled tokens.

    Args:
        old_logprobs: log pi_old by the trainer's forward pass, any shape, at least one token.
        sampler_logprobs: the engine's, same shape, temperature 1 and untruncated.
    """
    difference = (old_logprobs.detach().double() - sampler_logprobs.double()).flatten()
    # (sum w)^2 / (n sum w^2) in logarithms, as w itself may overflow.
    log_ess = 2 * difference.logsumexp(0) - (2 * difference).logsumexp(0) - math.log(len(difference))
    size = difference.abs()
    return Mismatch(size.mean().item(), size.max().item(), log_ess.exp().item())


def tis_weights(old_logprobs: Tensor, sampler_logprobs: Tensor, cap: float) -> Tensor:
    """Truncated importance sampling: min(pi_old / pi_sampler, cap) per token, detached.

    Args:
        old_logprobs: log pi_old by the trainer's forward pass, any shape.
        sampler_logprobs: the engine's, same shape; sampled without truncation (top-p 1).
        cap: largest weight, > 0.
    """
    return (old_logprobs - sampler_logprobs).detach().clamp(max=math.log(cap)).exp()


def off_policy(
    values: Tensor, logprobs: Tensor, old_logprobs: Tensor, form: OffPolicy, cap: float | None
) -> tuple[Tensor, Tensor]:
    """rho f per token, a divergence's loss on samples of pi_old, with rho = pi_theta / pi_old.

    weight: rho without gradient. The samples are corrected, so the direction stays the estimator's: k2 descends the
    reverse KL, k3 the forward KL. differentiate: the gradient passes through rho too, which makes it that of E_pi[f]:
    for k3 the reverse KL's (TRL's `use_bias_correction_kl`). Both are exact per token, with the states held fixed, and
    biased by the cap.

    Args:
        values: f of each token, any shape, with gradient.
        logprobs: log pi_theta of the same tokens, with gradient.
        old_logprobs: log pi_old, without gradient.
        cap: largest rho, > 0; None for no cap.

    Returns:
        rho f, and the tokens whose rho was capped (bool), of the same shape.
    """
    ratio = policy_ratio(logprobs if form == "differentiate" else logprobs.detach(), old_logprobs)
    if cap is None:
        return ratio * values, torch.zeros_like(values, dtype=torch.bool)
    return ratio.clamp(max=cap) * values, ratio.detach() > cap
