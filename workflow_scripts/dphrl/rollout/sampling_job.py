"""A sampling job: the responses of a policy to the requests of one shard."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch.distributed as dist

from dphrl.artifacts.stage import Timing
from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.rollout.factory import make_engine
from dphrl.rollout.parts import Parts
from dphrl.rollout.requests import Request


@dataclass(frozen=True)
class SamplingJob:
    """What to draw, and where.

    Attributes:
        policy: folder of the policy.
        engine: the block `engine`.
        hardware: the block `hardware`.
        requests: in key order.
        output: the table of the samples; parts are kept next to it until it is there.
        footer: of the output.
        label: of the progress lines.
    """

    policy: str
    engine: Mapping[str, Any]
    hardware: Mapping[str, Any]
    requests: Sequence[Request]
    output: str
    footer: Mapping[str, Any]
    label: str

    @cached_property
    def parts(self) -> Parts:
        """The requests in parts, and what of them was drawn."""
        # On other hardware an interrupted job goes on.
        footer = {key: value for key, value in self.footer.items() if key != "hardware"}
        return Parts(self.requests, Path(self.output), footer)

    @property
    def ranks(self) -> int:
        """Processes that share the engine."""
        return int(self.hardware["tensor_parallel"])

    def plain(self) -> dict[str, Any]:
        """The job as JSON can hold it, each prompt once."""
        prompts = {one.prompt_id: list(one.prompt_token_ids) for one in self.requests}
        requests = [astuple(replace(one, prompt_token_ids=())) for one in self.requests]
        named = {name.name: getattr(self, name.name) for name in fields(self)}
        return {**named, "requests": requests, "prompts": prompts}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """The job of which `plain` made this."""
        given = dict(plain)
        prompts, rows = given.pop("prompts"), given.pop("requests")
        requests = [replace(one, prompt_token_ids=prompts[one.prompt_id]) for one in (Request(*row) for row in rows)]
        return cls(**given, requests=requests)


def draw(job: SamplingJob, missing: Sequence[int]) -> list[Timing]:
    """Draw these parts in this process, which may be one of the ranks: all draw the same, and rank 0 writes."""
    started, first = time.perf_counter(), not dist.is_initialized() or dist.get_rank() == 0
    engine_config, hardware = EngineConfig(**job.engine), HardwareConfig(**job.hardware)
    engine = make_engine(Path(job.policy), engine_config, hardware, distributed=job.ranks > 1, alone=True)
    ready, tokens, many = time.perf_counter(), 0, len(job.parts.requests)
    for number in missing:
        label = f"{job.label} ({number + 1} of {many})" if many > 1 else job.label
        completions = engine.generate(job.parts.requests[number], label if first else None)
        tokens += sum(len(completion.token_ids) for completion in completions)
        if first:
            job.parts.write(number, completions)
    return [("start", ready - started, None), ("generate", time.perf_counter() - ready, tokens)]
