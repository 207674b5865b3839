"""Checks of a training: before each step the engine has the trainer's weights, and the stored log-probs are right.

A canary compares log-probs of fixed texts by engine and trainer after each push of weights. Before the first update,
the stored log-probs of the reference are compared with the policy that the training starts from.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from dphrl.policy.batch import Row
from dphrl.policy.engine import Digest, Engine
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer

# Of a canary in bfloat16; in float32 it is one text.
TEXTS, TOKENS = 8, 128
_PERTURBATION = 0.2
_FLOAT32_TOLERANCE = 1e-4
# In bfloat16: how often the gap at the start a gap may be, and the least share of the positive control's gap. The share
# is for an engine that computes like the trainer: at the start the two may differ by almost nothing.
MISMATCHES, LEAST_SHARE = 3, 1 / 200
# Of the stored log-probs.
_ROWS = 64
_STORED_FLOAT32_TOLERANCE = 1e-5
# Two passes in bfloat16 that are cut differently can differ by about as much.
_STORED_BFLOAT16_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Canary:
    """The texts, and how far two sets of their log-probs are apart.

    In float32 that is the largest |difference| on one text, which rounding leaves below 1e-5 nats. In bfloat16 it is
    the mean over eight texts: the largest of a few hundred changes so much from push to push that no bound on it spares
    every right training and still finds wrong weights (rates: tests/unit/training/test_canary.py).

    Attributes:
        texts: token ids; at most 128 each.
        dtype: of the policy, "float32" or "bfloat16".
    """

    texts: Sequence[Sequence[int]]
    dtype: str

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]], dtype: str, max_model_len: int) -> Self:
        """The first tokens of the concatenation of `texts`, cut so that an engine with this limit can read them."""
        tokens, length = chain.from_iterable(texts), min(TOKENS, max_model_len - 1)
        cut = [[*islice(tokens, length)] for _ in range(1 if dtype == "float32" else TEXTS)]
        # The first token of a text is without a log-prob.
        return cls([text for text in cut if len(text) > 1], dtype)

    def of_engine(self, engine: Engine) -> Tensor:
        """The engine's log-probs of all texts one after the other, float32 (tokens - texts,)."""
        return torch.cat([engine.text_logprobs(text) for text in self.texts])

    def of_trainer(self, trainer: Trainer) -> Tensor:
        """The trainer's, in the same form."""
        return torch.cat(trainer.logprobs([Row(text[:1], text[1:]) for text in self.texts]))

    def gap(self, ours: Tensor, theirs: Tensor) -> float:
        """The largest |difference| in float32, the mean in bfloat16, in nats; NaN where any log-prob is NaN."""
        differences = (ours - theirs).abs()
        return float(differences.max() if self.dtype == "float32" else differences.mean())


class StaleWeightsError(RuntimeError):
    """The engine does not hold the trainer's weights, or the check cannot detect whether it does."""


class WeightSync:
    """Pushes the trainer's weights into the engine and raises an error if they did not arrive.

    Make it before any push, while both hold the weights that the segment starts from: their difference then is
    rounding alone, from which the tolerance in bfloat16 is set.

    Args:
        tolerance: largest gap (`Canary.gap`), in nats. None: 1e-4 in float32; in bfloat16 three times the gap at the
            start, and from the positive control on at least a 200th of its gap. Merging adapters rounds weights that
            the trainer does not round: with adapters the start is also measured with weights rounded once more.
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
        # Adapters are merged and rounded for the engine alone, which only log-probs show.
        self._by_digests = engine.digests_suffice and trainer.method.lora is None
        self._measured_gap: float | None = None
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

        Every tensor that the engine keeps in the pushed form must be the same to the bit. Returns the gap. Where these
        are all tensors, and the engine computes with nothing else, the first push's gap stands for later ones.
        """
        pushed: dict[str, Digest] = {}
        self._engine.wake(_recorded(self._trainer.named_weights(), pushed))
        held = self._engine.digests()
        # A tensor that the engine keeps in another shape or type cannot be compared.
        comparable = {name for name in pushed.keys() & held.keys() if pushed[name][:2] == held[name][:2]}
        if stale := [name for name in comparable if pushed[name].bits != held[name].bits]:
            raise StaleWeightsError(
                f"step {step}: after the weight push {len(stale)} of the engine's tensors are not the trainer's, "
                f"{min(stale)} for one: rollouts would come from other weights than are trained"
            )
        if self._measured_gap is not None and self._by_digests and comparable == pushed.keys() == held.keys():
            return self._measured_gap
        gap = self._gap()
        if not gap <= self.tolerance:
            raise StaleWeightsError(
                f"step {step}: after the weight push the engine's log-probs of the canary differ by {gap:.2e} from the"
                f" trainer's (tolerance {self.tolerance:.2e}): rollouts would come from other weights than are trained"
            )
        self._measured_gap = gap
        return gap

    def _gap(self, theirs: Tensor | None = None) -> float:
        """The gap of the canary, by the engine now if its log-probs are not given."""
        ours = self._canary.of_trainer(self._trainer)
        return self._canary.gap(ours, self._canary.of_engine(self._engine) if theirs is None else theirs)


def _recorded(weights: Iterable[tuple[str, Tensor]], digests: dict[str, Digest]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in weights:
        digests[name] = Digest.of(tensor)
        yield name, tensor


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


class ReferenceMismatchError(RuntimeError):
    """The stored log-probs are of another policy than the start of the training."""


def check_reference(trainer: Trainer, responses: ReferenceResponses, policy: Path, mismatch: float) -> float:
    """Compare the stored log-probs with the policy at the start of a training, where every divergence must be zero.

    Returns the mean |l|, l = log pi_theta - log pi_ref, over the tokens of 64 rows, evenly spread over the file. All
    ranks compute the same rows, so they get the same value.

    Args:
        policy: folder of the policy, for the message.
        mismatch: mean |difference| of engine and trainer on the policy's own log-probs, for the tolerance in bfloat16.

    Raises:
        ReferenceMismatchError: the mean |l| is above 1e-5 in float32; in bfloat16 above three times the mismatch, and
            above 1e-2.
    """
    rows, reference = responses.rows(range(0, len(responses), ceil(len(responses) / _ROWS)))
    gap = float((torch.cat(trainer.logprobs(rows)) - torch.cat(reference)).abs().mean())
    tolerance = _STORED_FLOAT32_TOLERANCE
    if trainer.config.dtype == "bfloat16":
        tolerance = max(_STORED_BFLOAT16_TOLERANCE, MISMATCHES * mismatch)
    # Negated, so that NaN fails too.
    if not gap <= tolerance:
        raise ReferenceMismatchError(
            f"{responses.path}: its log-probs differ by {gap:.2e} nats per token from those of the base policy"
            f" {policy} (tolerance {tolerance:.2e}): one of the two is not what it was when they were computed; restore"
            " the policy, or delete this file and run snakemake again"
        )
    return gap
