"""Pure tensor maths of the method: divergences, the clipped policy loss, advantages, aggregation."""

from dphrl.objective.divergences import divergence
from dphrl.objective.ppo import policy_loss

__all__ = ["divergence", "policy_loss"]
