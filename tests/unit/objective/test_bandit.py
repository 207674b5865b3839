"""The thesis on a bandit with equally good arms: what is rewarded concentrates, what is rehearsed stays."""

import pytest
import torch

from dphrl.objective import divergence, policy_loss
from dphrl.objective.advantages import group_advantages

F64 = torch.float64
BANDITS, ARMS, GOOD, ROLLOUTS, STEPS, LR = 16, 12, 4, 8, 300, 4.0
# The base finds each of the good arms once in twenty draws; its right answers are stored, as those of D_pef are.
REFERENCE = torch.tensor([0.05] * GOOD + [0.1] * (ARMS - GOOD), dtype=F64)
STORED = torch.full((GOOD,), 1 / GOOD, dtype=F64)


def _train(name: str | None, eta: float, **options: str) -> tuple[float, float]:
    """Mean over bandits of the distinct right answers among 32, in expectation, and of the share of right answers."""
    draws = torch.Generator().manual_seed(0)
    logits = REFERENCE.log().expand(BANDITS, ARMS).clone().requires_grad_()
    for _ in range(STEPS):
        logprobs = logits.log_softmax(1)
        arms = torch.multinomial(logprobs.detach().exp(), ROLLOUTS, replacement=True, generator=draws)
        ours = logprobs.gather(1, arms)
        advantages = group_advantages((arms < GOOD).double())
        result = policy_loss(ours, ours.detach(), advantages, eps_low=0.2, eps_high=0.28, dual_clip=3.0)
        loss = result.loss.mean(1).sum()
        if name is not None:
            form = divergence(name, **options)
            if form.samples == "policy":
                token_losses = form.value(ours - REFERENCE.log()[arms])
            else:
                stored = torch.multinomial(STORED.expand(BANDITS, GOOD), 1, replacement=True, generator=draws)
                token_losses = form.value(logprobs.gather(1, stored) - STORED.log()[stored])
            loss = loss + eta * token_losses.mean(1).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits.detach() - LR * gradient).requires_grad_()
    good = logits.detach().softmax(1)[:, :GOOD]
    return (1 - (1 - good) ** 32).sum(1).mean().item(), good.sum(1).mean().item()


@pytest.mark.parametrize(("name", "eta", "options"), [(None, 0.0, {}), ("reverse_kl", 0.01, {"estimator": "k2"})])
def test_reward_alone_and_true_reverse_kl_concentrate(name: str | None, eta: float, options: dict[str, str]) -> None:
    distinct, right = _train(name, eta, **options)
    assert right > 0.99
    assert distinct < 1.3


@pytest.mark.parametrize(("name", "eta"), [("forward_kl", 0.01), ("js", 0.2)])
def test_rehearsal_of_stored_answers_keeps_several_arms(name: str, eta: float) -> None:
    """With the published eta; forward KL and reverse KL have the same."""
    distinct, right = _train(name, eta)
    assert right > 0.99
    assert distinct > 2.5
