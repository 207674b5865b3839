"""A bandit without shared features: rehearsing mastered contexts does not keep diversity on other, ambiguous ones.

The contexts are disjoint. On mastered ones every arm is right: reward teaches nothing, and one arm that the base drew
is stored for each. On ambiguous ones the right arm is drawn anew each time, so always taking the likeliest pays most.
What rehearsal changes on ambiguous contexts can only pass through features that both kinds have.
"""

import torch
from torch import Tensor

from dphrl.objective import divergence, policy_loss
from dphrl.objective.advantages import group_advantages

F64 = torch.float64
MASTERED, AMBIGUOUS, ROLLOUTS, STEPS, LR = 16, 16, 8, 120, 6.0
BASE = torch.tensor([0.46, 0.24, 0.14, 0.10, 0.06], dtype=F64)
RIGHT = torch.tensor([0.40, 0.25, 0.15, 0.12, 0.08], dtype=F64)
STORED = torch.multinomial(BASE, MASTERED, replacement=True, generator=torch.Generator().manual_seed(1))
# Of equal strength: eta f''(1) = 0.1.
METHODS = {
    "reward alone": (None, 0.0),
    "forward KL": (divergence("forward_kl"), 0.1),
    "Jensen-Shannon": (divergence("js"), 0.2),
    "reverse KL, stored": (divergence("alpha", alpha=0.0), 0.1),
}


def _train(name: str) -> Tensor:
    """Log-probs of the arms in each context, trained by reward on ambiguous ones and by rehearsal on mastered ones."""
    form, eta = METHODS[name]
    draws = torch.Generator().manual_seed(0)
    weights = torch.zeros(MASTERED + AMBIGUOUS, len(BASE), dtype=F64, requires_grad=True)
    for _ in range(STEPS):
        logprobs = (BASE.log() + weights).log_softmax(1)
        mastered, ambiguous = logprobs.split([MASTERED, AMBIGUOUS])
        arms = torch.multinomial(ambiguous.detach().exp(), ROLLOUTS, replacement=True, generator=draws)
        right = torch.multinomial(RIGHT, AMBIGUOUS, replacement=True, generator=draws)
        ours = ambiguous.gather(1, arms)
        advantages = group_advantages((arms == right[:, None]).double())
        loss = policy_loss(ours, ours.detach(), advantages, eps_low=0.2, eps_high=0.28, dual_clip=3.0).loss.mean()
        if form is not None:
            log_ratio = mastered.gather(1, STORED[:, None]) - BASE.log()[STORED, None]
            loss = loss + eta * form.value(log_ratio).mean()
        (gradient,) = torch.autograd.grad(loss, weights)
        weights = (weights.detach() - LR * gradient).requires_grad_()
    return (BASE.log() + weights.detach()).log_softmax(1)


def _entropy(logprobs: Tensor) -> float:
    return -(logprobs.exp() * logprobs).sum(1).mean().item()


def test_without_shared_features_rehearsal_changes_nothing_on_ambiguous_contexts() -> None:
    trained = {name: _train(name)[MASTERED:] for name in METHODS}
    alone = trained["reward alone"]
    for name, logprobs in trained.items():
        assert torch.equal(logprobs, alone), name
    # The reward does teach something there.
    assert _entropy(alone) < _entropy(BASE.log()[None]) - 0.1
