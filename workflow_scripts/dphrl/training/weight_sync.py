"""Weight push, checked by a canary: the engine's log-probs of a fixed text against the trainer's."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from dphrl.rollout.engine import Digest, Engine
from dphrl.training.canary import Canary
from dphrl.training.trainer import Trainer

_PERTURBATION = 0.2
_FLOAT32_TOLERANCE = 1e-4
# In bfloat16: how often the gap at the start a gap may be, and the least share of the positive control's gap. The share
# is for an engine that computes like the trainer: at the start the two may differ by almost nothing.
MISMATCHES, LEAST_SHARE = 3, 1 / 200


class StaleWeightsError(RuntimeError):
    """The engine does not hold the trainer's weights, or the check cannot detect whether it does."""


class WeightSync:
    """Pushes the trainer's weights into the engine and raises an error if they did not arrive.

    Make it before any push, while both hold the weights that the segment starts from: their difference then is
    rounding alone, from which the tolerance in bfloat16 is set.

    Args:
        tolerance: largest gap (`Canary.gap`), in nats. None: 1e-4 in float32; in bfloat16 three times the gap at the
            start, and from the positive control on at least a 200th of its gap. Merging adapters rounds weights that
            the trainer does not round: with adapters the gap is also that of weights which are rounded once more.
        texts: token ids, for `Canary`.
        start: the log-probs of the canary by the engine at the start of the segment, if it sleeps since; it has
            forgotten its own weights then. None: it is awake.
    """

    def __init__(
        self,
        trainer: Trainer,
        engine: Engine,
        tolerance: float | None,
        texts: Iterable[Sequence[int]],
        start: Tensor | None = None,
    ) -> None:
        self._trainer, self._engine = trainer, engine
        self._canary = Canary.of(texts, trainer.config.dtype, engine.max_model_len)
        self._by_rounding = tolerance is None and trainer.config.dtype == "bfloat16"
        if self._by_rounding:
            rounding = self._gap(start)
            if trainer.method.lora is not None:
                engine.wake(_rounded(trainer.named_weights()))
                rounding = max(rounding, self._gap())
            tolerance = max(_FLOAT32_TOLERANCE, MISMATCHES * rounding)
        self.tolerance = _FLOAT32_TOLERANCE if tolerance is None else tolerance

    def control(self) -> float:
        """Push perturbed weights, which the canary must detect: this tests the check itself. Returns the gap."""
        self._engine.wake(_perturbed(self._trainer.named_weights()))
        gap = self._gap()
        # Negated, so that NaN fails too.
        if not gap > self.tolerance:
            raise StaleWeightsError(
                f"positive control: perturbed weights were pushed, yet log-probs differ by only {gap:.2e} (tolerance"
                f" {self.tolerance:.2e}): the push does not reach the engine, or the tolerance is too wide"
            )
        if self._by_rounding:
            self.tolerance = max(self.tolerance, LEAST_SHARE * gap)
        return gap

    def push(self, step: int) -> float:
        """Push the current weights, waking the engine if it sleeps, and verify them.

        Every tensor that the engine keeps in the pushed form must be the same to the bit. Returns the gap.
        """
        pushed: dict[str, Digest] = {}
        self._engine.wake(_recorded(self._trainer.named_weights(), pushed))
        held = self._engine.digests()
        stale = [name for name in pushed.keys() & held.keys() if _differs(pushed[name], held[name])]
        if stale:
            raise StaleWeightsError(
                f"step {step}: after the weight push {len(stale)} of the engine's tensors are not the trainer's, "
                f"{min(stale)} for one: rollouts would come from other weights than are trained"
            )
        gap = self._gap()
        if not gap <= self.tolerance:
            raise StaleWeightsError(
                f"step {step}: after the weight push the engine's log-probs of the canary differ by {gap:.2e} from the"
                f" trainer's (tolerance {self.tolerance:.2e}): rollouts would come from other weights than are trained"
            )
        return gap

    def _gap(self, theirs: Tensor | None = None) -> float:
        """The gap of the canary, by the engine now if its log-probs are not given."""
        ours = self._canary.of_trainer(self._trainer)
        return self._canary.gap(ours, self._canary.of_engine(self._engine) if theirs is None else theirs)


def _recorded(weights: Iterable[tuple[str, Tensor]], digests: dict[str, Digest]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in weights:
        digests[name] = Digest.of(tensor)
        yield name, tensor


def _differs(ours: Digest, theirs: Digest) -> bool:
    """Whether the bits differ; a tensor that the engine keeps in another shape or type cannot be compared."""
    return ours[:2] == theirs[:2] and ours.bits != theirs.bits


def _rounded(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The weights with random changes of up to 2^-8, which round a quarter of them to a neighbour in bfloat16."""
    for name, tensor in weights:
        generator = torch.Generator(tensor.device).manual_seed(0)
        noise = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
        # In place: a copy of the embeddings is a gigabyte.
        yield name, noise.mul_(2).sub_(1).mul_(2**-8).mul_(tensor).add_(tensor)


def _perturbed(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in weights:
        generator = torch.Generator(tensor.device).manual_seed(0)
        noise = torch.randn(tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
        yield name, tensor + _PERTURBATION * tensor.std(correction=0) * noise
