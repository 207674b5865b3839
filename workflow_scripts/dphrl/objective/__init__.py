"""Pure tensor maths of the method: divergences, the clipped policy loss, advantages, aggregation."""

from dphrl.objective.aggregation import ComponentWeights, component_weights, js_beta
from dphrl.objective.divergences import Divergence
from dphrl.objective.forms import divergence
from dphrl.objective.mismatch import Mismatch, mismatch, tis_weights
from dphrl.objective.policy import PolicyLoss, policy_loss
from dphrl.objective.rewards import group_advantages, informative, overlong_penalty, reward_k1
from dphrl.objective.topk import topk_value

__all__ = [
    "ComponentWeights",
    "Divergence",
    "Mismatch",
    "PolicyLoss",
    "component_weights",
    "divergence",
    "group_advantages",
    "informative",
    "js_beta",
    "mismatch",
    "overlong_penalty",
    "policy_loss",
    "reward_k1",
    "tis_weights",
    "topk_value",
]
