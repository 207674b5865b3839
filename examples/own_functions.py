"""Your divergence and your advantage, for `methods` of a configuration:

    methods:
      hellinger: {divergence: "examples/own_functions.py:hellinger", eta: 0.1}
      centred: {advantage: "examples/own_functions.py:centred"}

Here a policy (0.8, 0.2) goes back to the reference (0.5, 0.5). Its first divergence is 2 - 2 (sqrt(0.4) + sqrt(0.1)).

    divergence  0.1026
    policy      0.8000 -> 0.5000
    advantages  [0.75, -0.25, -0.25, -0.25]

docs/how-to/own-divergence.md says how a run uses and checks such functions. remedies.py has published advantages.
"""

# ruff: noqa: E741 (l is the paper's letter)

import torch
from torch import Tensor

from dphrl.objective.advantages import ScoredGroup
from dphrl.objective.user_functions import divergence_of


def hellinger(l: Tensor) -> Tensor:
    """(sqrt(u) - 1)^2 of each log-ratio l = ln u; autograd gives its gradient."""
    return torch.expm1(l / 2).square()


def centred(group: ScoredGroup) -> Tensor:
    """Rewards less their mean."""
    return group.rewards - group.rewards.mean()


def main() -> None:
    divergence = divergence_of(f"{__file__}:hellinger", l_cap=3.0)
    reference = torch.tensor([0.5, 0.5], dtype=torch.float64)
    logits = torch.tensor([0.8, 0.2], dtype=torch.float64).log().requires_grad_()
    start = logits.softmax(0)[0].item()
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for step in range(200):
        optimizer.zero_grad()
        mean = reference @ divergence.value(logits.log_softmax(0) - reference.log())
        if step == 0:
            print(f"divergence  {mean.item():.4f}")
        mean.backward()
        optimizer.step()
    print(f"policy      {start:.4f} -> {logits.softmax(0)[0].item():.4f}")
    right = torch.tensor([True, False, False, False])
    group = ScoredGroup(right, right.double(), torch.ones(4), right, torch.arange(4), step=1)
    print(f"advantages  {centred(group).tolist()}")


if __name__ == "__main__":
    main()
