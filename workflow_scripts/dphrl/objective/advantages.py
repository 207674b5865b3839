"""Advantages from rewards, and how rewards are shaped and groups selected before (GRPO, Dr.GRPO, DAPO)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

_STD_EPSILON = 1e-6


@dataclass(frozen=True)
class ScoredGroup:
    """The rollouts of one prompt, from which a user's function computes advantages. n responses in the order drawn.

    Attributes:
        correct: bool (n,), the verdicts before partial credit and penalties.
        rewards: float64 (n,), with partial credit and the overlong punishment, if the configuration has them.
        lengths: int64 (n,), tokens.
        finished: bool (n,), False for responses that were cut off.
        answers: int64 (n,), equal numbers for equal answers, -1 without an answer.
        step: of the training, from 1.
        programs: int64 (n,), equal numbers for equal programs, -1 without one.
        base_right, base_n: right pre-samples of the base, and all; 0 of 8 is not 0 of 0.
        logprobs, reference: float64 (n,), log-probs of whole responses under the policy that drew them, and under the
            base, both by the trainer's forward pass at temperature 1.

    Of the last five lines, those that `advantage_needs` does not name are None.
    """

    correct: Tensor
    rewards: Tensor
    lengths: Tensor
    finished: Tensor
    answers: Tensor
    step: int
    programs: Tensor | None = None
    base_right: int | None = None
    base_n: int | None = None
    logprobs: Tensor | None = None
    reference: Tensor | None = None


def group_advantages(rewards: Tensor, std: bool = True) -> Tensor:
    """GRPO advantages (R - mean) / (std + 1e-6) within each group, std with ddof 1 (arXiv 2402.03300).

    Args:
        rewards: (groups, responses per group), at least 2 responses.
        std: False leaves out the division: R - mean, as in Dr.GRPO (arXiv 2503.20783).

    Returns:
        The same shape; all-equal groups give exactly 0.
    """
    advantages = rewards - rewards.mean(dim=1, keepdim=True)
    if std:
        advantages = advantages / (rewards.std(dim=1, keepdim=True) + _STD_EPSILON)
    equal = (rewards == rewards[:, :1]).all(dim=1, keepdim=True)
    return advantages.masked_fill(equal, 0.0)


def overlong_penalty(lengths: Tensor, max_tokens: int, buffer: int) -> Tensor:
    """Soft overlong punishment, added to the reward (DAPO, arXiv 2503.14476, Eq. 13).

    Args:
        lengths: tokens of each response, any shape.
        max_tokens: longest response.
        buffer: the last tokens before it, over which the penalty grows from 0 to -1.

    Returns:
        float32, the shape of `lengths`: 0 up to max_tokens - buffer, -1 from max_tokens on.
    """
    return ((max_tokens - buffer - lengths).float() / buffer).clamp(-1.0, 0.0)


def k1_penalties(log_ratios: Sequence[Tensor], group: int, to_go: bool) -> list[Tensor]:
    """What reverse KL takes from each token's advantage, in units of eta: k1 less the mean k1 of the other responses.

    k1 is the sum of log pi_theta - log pi_ref over the whole response, or with `to_go` from the token on. The mean is
    of the same sum at the same position, 0 for responses that have ended. No standard deviation divides it. In either
    form the expected gradient of the policy loss is that of KL(theta || ref) of whole responses; with the group's own
    mean it would be (G - 1)/G of that.

    Args:
        log_ratios: of each response's tokens under the policy that sampled them, (tokens,) each, group by group.
        group: responses per group, at least 2.
        to_go: leave out the tokens before, on which this token has no effect.

    Returns:
        (tokens,) for each response, float64, detached.
    """
    k1 = pad_sequence([part.detach().double() for part in log_ratios], batch_first=True)
    sums = k1.flip(1).cumsum(1).flip(1) if to_go else k1.sum(1, keepdim=True).expand_as(k1)
    groups = sums.unflatten(0, (-1, group))
    others = (groups.sum(1, keepdim=True) - groups) / (group - 1)
    penalties = (groups - others).flatten(0, 1)
    return [of_row[: len(part)] for of_row, part in zip(penalties, log_ratios, strict=True)]
