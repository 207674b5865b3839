"""A new divergence: the squared Hellinger distance, f(u) = (sqrt(u) - 1)^2 with u = policy / reference.

It is evaluated on samples of the reference, here over all two tokens. It prints its mean for a policy (0.8, 0.2) and a
reference (0.5, 0.5), which is 2 - 2 (sqrt(0.4) + sqrt(0.1)), and the policy's first probability after gradient
steps: the divergence pulls it back to 0.5.

    divergence  0.1026
    policy      0.8000 -> 0.5000

docs/how-to/own-divergence.md says how a method of the workflow gets it.
"""

# ruff: noqa: E741 (l is the paper's letter)

import torch

from dphrl.objective.divergences import Divergence

HELLINGER = Divergence(
    "hellinger",
    f=lambda l: torch.expm1(l / 2).square(),
    g=lambda l: (l / 2).exp() * torch.expm1(l / 2),
    l_cap=3.0,  # f grows like exp(l): beyond it continues linearly
)


def main() -> None:
    reference = torch.tensor([0.5, 0.5], dtype=torch.float64)
    logits = torch.tensor([0.8, 0.2], dtype=torch.float64).log().requires_grad_()

    def divergence() -> torch.Tensor:
        return reference @ HELLINGER.value(logits.log_softmax(0) - reference.log())

    start = logits.softmax(0)[0].item()
    print(f"divergence  {divergence().item():.4f}")
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(200):
        optimizer.zero_grad()
        divergence().backward()
        optimizer.step()
    print(f"policy      {start:.4f} -> {logits.softmax(0)[0].item():.4f}")


if __name__ == "__main__":
    main()
