"""The canary of a weight push: fixed texts whose log-probs by the engine are compared with the trainer's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Self

import torch
from torch import Tensor

from dphrl.model.batch import Row
from dphrl.rollout.engine import Engine
from dphrl.training.trainer import Trainer

TEXTS, TOKENS = 8, 128


@dataclass(frozen=True)
class Canary:
    """The texts, and how far two sets of their log-probs are apart.

    In float32 that is the largest |difference| on one text, which rounding leaves below 1e-5 nats. In bfloat16 it is
    the mean over eight texts: the largest of a few hundred changes so much from push to push that no bound on it spares
    every right training and still finds wrong weights (docs/gpu.md has the rates).

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
        # A text without a second token has no log-prob.
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
