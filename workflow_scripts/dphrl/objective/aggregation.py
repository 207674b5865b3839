"""Weights that turn the token losses of both kinds of rows into one loss (arXiv 2509.07430, Eq. 7, token level)."""

from dataclasses import dataclass
from typing import Literal

Norm = Literal["joint", "separate"]


@dataclass(frozen=True)
class ComponentWeights:
    """Factors of the token losses in the sum over a mini-batch.

    Attributes:
        exploration: weight of a policy-loss token of a D_exp row.
        rehearsal: weight of a divergence token of a D_pef row, eta included.
        rollout_divergence: weight of a divergence token of a D_exp row, eta and beta included.
    """

    exploration: float
    rehearsal: float
    rollout_divergence: float = 0.0


def component_weights(
    rows: tuple[int, int], tokens: tuple[int, int], eta: float, norm: Norm, beta: float = 0.0
) -> ComponentWeights:
    """Token weights from the global counts of a mini-batch, so that no cut into micro-batches or ranks changes them.

    separate: L = mean_exp + eta * mean_pef.
    joint:    L = (N_exp * mean_exp + eta * N_pef * mean_pef) / (N_exp + N_pef), with N counted in rows: at the
              published 8:1 this is a relative weight of eta / 8, as in the official code.
    mean_exp is over policy loss + eta * beta * divergence of each token of the rollouts.

    Args:
        rows: number of D_exp rows, of D_pef rows.
        tokens: number of response tokens of each.
        eta: weight of the divergence.
        beta: weight of the divergence on the rollouts, in eta: `js_beta` for the policy half of js_definition, 1 for
            reverse_kl, 0 for methods without a divergence on rollouts.
    """
    exp_share, pef_share = (rows[0] / sum(rows), rows[1] / sum(rows)) if norm == "joint" else (1.0, 1.0)
    exploration = exp_share / tokens[0] if tokens[0] else 0.0
    return ComponentWeights(
        exploration=exploration,
        rehearsal=eta * pef_share / tokens[1] if tokens[1] else 0.0,
        rollout_divergence=eta * beta * exploration,
    )


def js_beta(rows: tuple[int, int]) -> float:
    """The automatic beta of js_definition, N_pef / N_exp in the batch's `rows`: both halves then have equal weight.

    Raises:
        ValueError: there is no D_exp row.
    """
    if not rows[0]:
        raise ValueError("js_beta needs rollouts: the batch has no row of D_exp")
    return rows[1] / rows[0]
