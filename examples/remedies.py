"""Ten advantages from the literature on lost diversity, for `methods` of a configuration:

    methods:
      pkpo: {rollout_on: all, advantage: "examples/remedies.py:pkpo", advantage_settings: {k: 4}}
      alpha_dpg:
        rollout_on: all
        advantage: "examples/remedies.py:alpha_dpg"
        advantage_needs: [base, logprobs, reference]

Each takes a group of n responses (`dphrl.objective.advantages.ScoredGroup`), c of them right, and returns n advantages.
`r` is 1 for a right response and 0 for a wrong one, without partial credit. Standard deviations have ddof 1 unless the
docstring says otherwise. Equal ranks go by the order of drawing. Values: remedies.json; `which_remedy.py` names a
function by its values. Their scales differ by a factor of a thousand, so each needs its own learning rate.
"""

from math import comb

import torch
from torch import Tensor

from dphrl.objective.advantages import ScoredGroup, group_advantages

_LEAST = 1e-6


def pkpo(group: ScoredGroup, k: int = 4) -> Tensor:
    """Pass@k policy optimisation (2505.15201, Eq. 33), binary: r (k/n) C(n-c, k-1) / C(n-1, k-1)."""
    n, c = _counts(group)
    return group.correct.double() * (k / n * comb(n - c, k - 1) / comb(n - 1, k - 1))


def pass_at_k_training(group: ScoredGroup, k: int = 4) -> Tensor:
    """Pass@k Training (2508.10751): rewards of all groups of k, in units of their population std sqrt(rho (1 - rho)).

    Right: 1 - rho; wrong: 1 - rho - C(n-c-1, k-1) / C(n-1, k-1); rho = pass@k of the group. 0 where all are wrong.
    """
    n, c = _counts(group)
    if not c:
        return torch.zeros(n, dtype=torch.float64)
    rho = 1.0 - comb(n - c, k) / comb(n, k)
    failed = comb(n - c - 1, k - 1) / comb(n - 1, k - 1) if c < n else 0.0
    right, wrong = 1.0 - rho, 1.0 - rho - failed
    return _either(group, right, wrong) / ((rho * (1.0 - rho)) ** 0.5 + _LEAST)


def maxrl(group: ScoredGroup) -> Tensor:
    """MaxRL (2602.02710): n r / c - 1; 0 where all are wrong."""
    n, c = _counts(group)
    return n * group.correct.double() / c - 1.0 if c else torch.zeros(n, dtype=torch.float64)


def w_reinforce(group: ScoredGroup, right: float = 0.1) -> Tensor:
    """Weighted REINFORCE (2506.01347): `right` for right responses, -1 for wrong ones, also in groups of one kind."""
    return _either(group, right, -1.0)


def f_grpo(group: ScoredGroup, gamma: float = 0.5) -> Tensor:
    """Focal GRPO (2602.06717): GRPO times (1 - c/n)^gamma, less of what is solved often."""
    n, c = _counts(group)
    return _grpo(group.correct.double()) * (1.0 - c / n) ** gamma


def ucpo(group: ScoredGroup, tau: float = 0.2) -> Tensor:
    """UCPO (2605.00365): the rarer right responses get more of GRPO's credit. Needs logprobs, taken per token.

    q = softmax over the right ones of the mean log-prob, at least 1e-6; factor c ((1 - tau)/c + tau (1/q)/sum(1/q)).
    """
    of_token = group.logprobs / group.lengths
    inverse = 1.0 / of_token[group.correct].softmax(0).clamp(min=_LEAST)
    advantages = _grpo(group.correct.double())
    advantages[group.correct] *= (1.0 - tau) + tau * len(inverse) * inverse / inverse.sum()
    return advantages


def ds_grpo(group: ScoredGroup, right: float = 0.01, wrong: float = 0.01) -> Tensor:
    """Differential smoothing (2511.19942, Eq. 6): A - right s for right responses, A + wrong s for wrong ones.

    s is the log-prob of the whole response. Needs logprobs. It trains on groups of one kind too.
    """
    return _grpo(group.correct.double()) + _either(group, -right, wrong) * group.logprobs


def unlikeliness(group: ScoredGroup, beta: float = 0.25) -> Tensor:
    """Rank of likelihood (2506.02355): GRPO on r (1 - beta rank / n), rank 0 for the least likely. Needs logprobs.

    The ranks are of log-probs of whole responses, among all n. It trains on groups that are all right.
    """
    ranks = torch.empty(len(group.correct), dtype=torch.float64)
    ranks[group.logprobs.argsort(stable=True)] = torch.arange(len(ranks), dtype=torch.float64)
    return _grpo(group.correct * (1.0 - beta * ranks / len(ranks)))


def class_credit(group: ScoredGroup, a: float = 1.0) -> Tensor:
    """Credit by class (2601.08763): GRPO of the right ones times c f^-a / sum(f^-a), f the size of a program's class.

    Needs programs; a right response without a program counts as a class of its own.
    """
    programs = group.programs[group.correct]
    sizes = (programs[:, None] == programs).sum(1).masked_fill(programs < 0, 1).double()
    advantages = _grpo(group.correct.double())
    advantages[group.correct] *= len(sizes) * sizes**-a / (sizes**-a).sum()
    return advantages


def alpha_dpg(group: ScoredGroup, alpha: float = 0.5, most: float = 10.0) -> Tensor:
    """alpha-DPG (2512.05962): R = min((p/pi)^(1-alpha) - 1, most), less the mean R of the others; p = pi_ref r / Z.

    Z is the base's share of right pre-samples, at least 1 of 2n. Needs base, logprobs and reference. Its alpha runs
    against that of this project: 0 is forward KL. It trains on groups that are all wrong or all right.
    """
    z = max(group.base_right, 0.5) / group.base_n
    exponent = (1.0 - alpha) * (group.reference - group.logprobs - torch.tensor(z).double().log())
    rewards = torch.where(group.correct, exponent.clamp(max=torch.tensor(most + 1.0).log().item()).exp() - 1.0, -1.0)
    return (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1)


def _counts(group: ScoredGroup) -> tuple[int, int]:
    return len(group.correct), int(group.correct.sum())


def _either(group: ScoredGroup, right: float, wrong: float) -> Tensor:
    return wrong + (right - wrong) * group.correct.double()


def _grpo(rewards: Tensor) -> Tensor:
    return group_advantages(rewards[None])[0]
