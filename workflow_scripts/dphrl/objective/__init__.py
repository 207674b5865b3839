"""Pure tensor maths of the method: divergences, the clipped policy loss, advantages, aggregation."""

from dphrl.objective.aggregation import ComponentWeights, component_weights
from dphrl.objective.divergences import Divergence, divergence
from dphrl.objective.policy import PolicyLoss, group_advantages, policy_loss

__all__ = [
    "ComponentWeights",
    "Divergence",
    "PolicyLoss",
    "component_weights",
    "divergence",
    "group_advantages",
    "policy_loss",
]
