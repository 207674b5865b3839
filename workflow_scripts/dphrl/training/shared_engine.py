"""An engine that is split over several ranks: every rank must take part in the requests of each."""

from collections.abc import Sequence
from dataclasses import astuple

import torch.distributed as dist

from dphrl.ranks.collectives import all_gather, control_group
from dphrl.rollout.engine import Engine
from dphrl.rollout.requests import Completion, Request


class SharedEngine:
    """This rank's part of an engine, with the requests of all ranks that share it (see `Engine`).

    Ranks with consecutive numbers share one. They may call `generate` unequally often and keep generating for the
    others until all ranks sleep; they make all other calls at the same time and with the same arguments. `push` and
    `wake` take whole tensors; `digests` are of this rank's part, so a split tensor has another shape than when pushed.

    Args:
        engine: this rank's part, made with `tensor_parallel` above 1.
        size: ranks per engine; divides the number of ranks.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._group = control_group(size)
        self.max_model_len = engine.max_model_len
        self.text_logprobs, self.digests = engine.text_logprobs, engine.digests
        self.push, self.wake = engine.push, engine.wake

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request of this rank, in order; those of the other ranks are generated with them."""
        return self._together(requests, label) or []

    def sleep(self) -> None:
        """Sleep together: until all ranks call this, this one keeps generating for the others."""
        while self._together(None) is not None:
            pass
        self._engine.sleep()

    def _together(self, requests: Sequence[Request] | None, label: str | None = None) -> list[Completion] | None:
        """Completions of this rank's requests; `None` means this rank is done; returns `None` once all are."""
        requested = all_gather(None if requests is None else [astuple(request) for request in requests], self._group)
        if all(part is None for part in requested):
            return None
        # The same order on all ranks: each runs its own scheduler, and these must agree on every step.
        completions = self._engine.generate([Request(*row) for part in requested for row in part or []], label)
        start = sum(len(part or []) for part in requested[: dist.get_rank(self._group)])
        return completions[start : start + len(requests or [])]
