"""Weights that turn the token losses of both kinds of rows into one loss (arXiv 2509.07430, Eq. 7, token level).

docs/method.md has the readings of Eq. 7.
"""

from dataclasses import dataclass
from typing import Literal

Norm = Literal["joint", "separate", "tokens"]


@dataclass(frozen=True)
class ComponentWeights:
    """Factors of the token losses in the sum over a mini-batch.

    Attributes:
        exploration: weight of a policy-loss token of a rollout.
        rehearsal: weight of a divergence token of a stored response, eta included.
        rollout_divergence: weight of a divergence token of a rollout, eta and beta included.
    """

    exploration: float
    rehearsal: float
    rollout_divergence: float


def component_weights(
    rows: tuple[int, int], tokens: tuple[int, int], eta: float, norm: Norm, beta: float = 0.0
) -> ComponentWeights:
    """Token weights from the global counts of a mini-batch, so that no cut into micro-batches or ranks changes them.

    separate: L = mean_exp + eta * mean_pef.
    joint:    L = (N_exp * mean_exp + eta * N_pef * mean_pef) / (N_exp + N_pef), with N counted in rows: at the
              published 8:1 this is a relative weight of eta / 8, as in the official code.
    tokens:   L = (T_exp * mean_exp + eta * T_pef * mean_pef) / (T_exp + T_pef), with T counted in response tokens: one
              mean over all tokens of the mini-batch.
    mean_exp is over policy loss + eta * beta * divergence of each token of the rollouts.

    Args:
        rows: number of rollouts, of stored responses.
        tokens: number of response tokens of each.
        eta: weight of the divergence.
        beta: weight of the divergence on the rollouts, in eta: `js_beta` for the policy half of js_definition, 1 for
            reverse_kl, 0 for methods without a divergence on rollouts.
    """
    exp_share, pef_share = _shares(rows, tokens, norm)
    exploration = exp_share / tokens[0] if tokens[0] else 0.0
    return ComponentWeights(
        exploration=exploration,
        rehearsal=eta * pef_share / tokens[1] if tokens[1] else 0.0,
        rollout_divergence=eta * beta * exploration,
    )


def js_beta(rows: tuple[int, int], tokens: tuple[int, int], norm: Norm) -> float:
    """The automatic beta of js_definition, with which the token means of both halves weigh alike (Appendix E's aim).

    1 under `separate`, N_pef / N_exp under `joint`, T_pef / T_exp under `tokens`; arguments as for
    `component_weights`, with at least one rollout.
    """
    exp_share, pef_share = _shares(rows, tokens, norm)
    return pef_share / exp_share


def _shares(rows: tuple[int, int], tokens: tuple[int, int], norm: Norm) -> tuple[float, float]:
    """Weights of mean_exp and of mean_pef before eta."""
    if norm == "separate":
        return 1.0, 1.0
    exp, pef = rows if norm == "joint" else tokens
    return exp / (exp + pef), pef / (exp + pef)
