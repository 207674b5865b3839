"""Weight push and the check that it arrived: the engine's log-probs of a fixed text against the trainer's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dphrl.model import Row
from dphrl.rollout import VllmEngine
from dphrl.training.trainer import Trainer

_CANARY_TOKENS = 128
_PERTURBATION = 0.2


class StaleWeightsError(RuntimeError):
    """The engine does not hold the trainer's weights, or the check could not tell if it did."""


class WeightSync:
    """Pushes the trainer's weights into the engine and refuses to go on if they did not arrive.

    Args:
        tolerance: largest |difference| of log-probs, in nats.
        texts: token ids to make the fixed text from; the first tokens of their concatenation.
    """

    def __init__(self, trainer: Trainer, engine: VllmEngine, tolerance: float, texts: Sequence[Sequence[int]]) -> None:
        self._trainer, self._engine, self._tolerance = trainer, engine, tolerance
        self._text = [token for text in texts for token in text][: min(_CANARY_TOKENS, engine.max_model_len - 1)]

    def control(self) -> float:
        """Push perturbed weights, which the canary must notice: it is no check if it can't fail.

        Returns:
            The difference that it saw.
        """
        self._engine.push(_perturbed(self._trainer.weights()))
        gap = self._gap()
        if gap <= self._tolerance:
            raise StaleWeightsError(
                f"positive control: perturbed weights were pushed, yet log-probs differ by only {gap:.2e} (tolerance"
                f" {self._tolerance:.2e}): the push does not reach the engine, or the tolerance is too wide"
            )
        return gap

    def push(self, step: int) -> float:
        """Push the current weights and verify them; returns the difference of log-probs."""
        self._engine.push(self._trainer.weights())
        gap = self._gap()
        # Negated, so that NaN fails too.
        if not gap <= self._tolerance:
            raise StaleWeightsError(
                f"step {step}: after the weight push the engine's log-probs of the canary differ by {gap:.2e} from the"
                f" trainer's (tolerance {self._tolerance:.2e}): rollouts would come from other weights than are trained"
            )
        return gap

    def _gap(self) -> float:
        (ours,) = self._trainer.logprobs([Row(self._text[:1], self._text[1:])])
        return float((ours - self._engine.text_logprobs(self._text)).abs().max())


def _perturbed(weights: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for name, tensor in weights:
        noise = torch.randn(tensor.shape, generator=generator).to(tensor)
        yield name, tensor + _PERTURBATION * tensor.std() * noise
