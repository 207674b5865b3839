"""Difference between the log-probs of sampler and trainer for the same tokens, and weights that correct for it."""

import math
from dataclasses import dataclass

from torch import Tensor


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
        old_logprobs: log pi_old by the trainer's forward pass, any shape.
        sampler_logprobs: the engine's, same shape, temperature 1 and untruncated.

    Raises:
        ValueError: there are no tokens.
    """
    difference = (old_logprobs.detach().double() - sampler_logprobs.double()).flatten()
    if not len(difference):
        raise ValueError("no tokens to compare: the rollouts are empty")
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
    if cap <= 0:
        raise ValueError(f"cap must be positive, got {cap}")
    return (old_logprobs - sampler_logprobs).detach().clamp(max=math.log(cap)).exp()
