"""Advantages from rewards, and how rewards are shaped and groups selected before (GRPO, Dr.GRPO, DAPO)."""

from collections.abc import Sequence

import torch
from torch import Tensor

_STD_EPSILON = 1e-6


def group_advantages(rewards: Tensor, std: bool = True) -> Tensor:
    """GRPO advantages (R - mean) / (std + 1e-6) within each group, std with ddof 1 (arXiv 2402.03300).

    Args:
        rewards: (groups, responses per group).
        std: False leaves out the division: R - mean, as in Dr.GRPO (arXiv 2503.20783).

    Returns:
        The same shape; all-equal groups give exactly 0.

    Raises:
        ValueError: fewer than two responses per group.
    """
    _check_groups(rewards, "rewards")
    advantages = rewards - rewards.mean(dim=1, keepdim=True)
    if std:
        advantages = advantages / (rewards.std(dim=1, keepdim=True) + _STD_EPSILON)
    equal = (rewards == rewards[:, :1]).all(dim=1, keepdim=True)
    return advantages.masked_fill(equal, 0.0)


def informative(correct: Tensor) -> Tensor:
    """Groups that dynamic sampling keeps: neither all right nor all wrong (DAPO, arXiv 2503.14476).

    Args:
        correct: bool (groups, responses per group), the binary verdicts, not shaped rewards.

    Returns:
        bool (groups,).

    Raises:
        ValueError: `correct` is not bool, or a group has fewer than two responses.
    """
    if correct.dtype != torch.bool:
        raise ValueError(f"correct must be bool verdicts, got {correct.dtype}: shaped rewards do not count here")
    _check_groups(correct, "correct")
    return correct.any(dim=1) & ~correct.all(dim=1)


def overlong_penalty(lengths: Tensor, max_tokens: int, buffer: int) -> Tensor:
    """Soft overlong punishment, added to the reward (DAPO, arXiv 2503.14476, Eq. 13).

    Args:
        lengths: tokens of each response, any shape.
        max_tokens: longest response.
        buffer: the last tokens before it, over which the penalty grows from 0 to -1.

    Returns:
        float32, the shape of `lengths`: 0 up to max_tokens - buffer, -1 from max_tokens on.

    Raises:
        ValueError: the buffer is not within 1..max_tokens.
    """
    if not 1 <= buffer <= max_tokens:
        raise ValueError(f"buffer must be within 1..max_tokens = {max_tokens}, got {buffer}")
    return ((max_tokens - buffer - lengths).float() / buffer).clamp(-1.0, 0.0)


def reward_k1(log_ratio: Tensor, lengths: Sequence[int]) -> Tensor:
    """k1 of each response: the sum of log pi_theta - log pi_ref, whose mean over policy samples is KL(theta || ref).

    It is for the reward, R - eta * reward_k1, and detached: as a loss its expected gradient would be 0.

    Args:
        log_ratio: of the response tokens under the policy that sampled them, flat (tokens,).
        lengths: tokens of each response, in order.

    Returns:
        (responses,).
    """
    return torch.stack([part.sum() for part in log_ratio.detach().split(list(lengths))])


def _check_groups(values: Tensor, name: str) -> None:
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(f"{name} must be (groups, at least 2 responses), got {tuple(values.shape)}")
