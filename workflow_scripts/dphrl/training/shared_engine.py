"""An engine that several ranks hold parts of: what one of them asks for, all must ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple

import torch.distributed as dist
from torch import Tensor

from dphrl.rollout.engine import Digest, Engine
from dphrl.rollout.requests import Completion, Request
from dphrl.training.collectives import gathered


class SharedEngine:
    """This rank's part of an engine, with the requests of all ranks that share it (see `Engine`).

    Ranks that follow each other share one. They may ask for responses unequally often, and draw along until the last
    of them goes to sleep; all else they ask for at the same time, and alike.

    Args:
        engine: this rank's part, made with `tensor_parallel` above 1.
        size: ranks per engine; divides the number of ranks.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._group, _ = dist.new_subgroups(size)

    @property
    def max_model_len(self) -> int:
        """Longest sequence (prompt and response) in tokens."""
        return self._engine.max_model_len

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request of this rank, in order; those of the others are drawn with them."""
        return self._together(requests, label) or []

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        """Log-probs of token_ids[1:] given what precedes each, float32 (len(token_ids) - 1), temperature 1."""
        return self._engine.text_logprobs(token_ids)

    def push(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights by these, which each rank gives whole."""
        self._engine.push(weights)

    def digests(self) -> dict[str, Digest]:
        """Of this rank's part: a tensor that is spread over the ranks has another shape than what was pushed."""
        return self._engine.digests()

    def sleep(self) -> None:
        """Go to sleep together: until all ranks ask for it, this one draws along for the others."""
        while self._together(None) is not None:
            pass
        self._engine.sleep()

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take these weights as `push` does, out of sleep where the engine sleeps."""
        self._engine.wake(weights)

    def _together(self, requests: Sequence[Request] | None, label: str | None = None) -> list[Completion] | None:
        """Completions of this rank's requests; None for it has none, and None back if no rank has any more."""
        asked = gathered(None if requests is None else [astuple(request) for request in requests], self._group)
        if all(part is None for part in asked):
            return None
        # All ranks in the same order: each schedules for itself, and they must agree on every step.
        completions = self._engine.generate([Request(*row) for part in asked for row in part or []], label)
        start = sum(len(part or []) for part in asked[: dist.get_rank(self._group)])
        return completions[start : start + len(requests or [])]
