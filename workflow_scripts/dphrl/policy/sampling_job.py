"""A sampling job: the responses of a policy to one shard of a dataset, drawn in this process or on ranks.

Finished parts of the samples are on disk: after an interruption only the missing parts are drawn.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl
import torch
import torch.distributed as dist

from dphrl.config.blocks.sampling import EngineConfig
from dphrl.policy.engines import make_engine
from dphrl.policy.ranks import RankJob, run_on_ranks
from dphrl.policy.requests import REQUESTS_PER_PART, Completion, Request, SamplingPlan, rollout_frame
from dphrl.store.files import parts_folder
from dphrl.store.parquet import ADDED, read_footer, read_table, write_table
from dphrl.store.schema import SchemaError
from dphrl.store.stage import Timing

# How long the ranks wait for each other, which all load the same model; a rank that is lost ends the others.
_PATIENCE = timedelta(hours=1)


class Sampled(NamedTuple):
    """Results of a job.

    Attributes:
        rows: all samples.
        timings: seconds and tokens of the parts that were drawn now.
        note: how many prompts were drawn before, in words; empty for none.
    """

    rows: pl.DataFrame
    timings: list[Timing]
    note: str


class SamplingJob(RankJob):
    """The samples to draw, and where they go.

    Attributes:
        policy: folder of the policy.
        engine: the block `engine`.
        plan: how many samples, and how they are drawn.
        prompts: id and token ids of each prompt, in key order.
        output: the table of the samples; parts are kept next to it until it is there.
        footer: of the output.
        missing: numbers of the parts that `work` draws.
    """

    after_failure: ClassVar[str] = "What is drawn is kept: run snakemake again, and the rest is drawn."

    policy: str
    engine: EngineConfig
    plan: SamplingPlan
    prompts: list[tuple[str, list[int]]]
    output: str
    footer: dict[str, Any]
    missing: Sequence[int] = ()

    @cached_property
    def parts(self) -> Parts:
        """The requests in parts."""
        # On other hardware an interrupted job goes on.
        footer = {key: value for key, value in self.footer.items() if key != "hardware"}
        return Parts(self.plan.requests(self.prompts), Path(self.output), footer)

    def work(self) -> list[Timing]:
        """Draw the missing parts. Ranks all draw the same, and rank 0 writes."""
        distributed = self.hardware.tensor_parallel > 1
        if distributed:
            on_gpu = torch.cuda.is_available()
            if on_gpu:
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
        started, first = time.perf_counter(), not dist.is_initialized() or dist.get_rank() == 0
        engine = make_engine(Path(self.policy), self.engine, self.hardware, distributed=distributed, alone=True)
        ready, tokens, many = time.perf_counter(), 0, len(self.parts.requests)
        for number in self.missing:
            label = f"{self.label} ({number + 1} of {many})" if many > 1 else self.label
            completions = engine.generate(self.parts.requests[number], label if first else None)
            tokens += sum(len(completion.token_ids) for completion in completions)
            if first:
                self.parts.write(number, completions)
        return [("start", ready - started, None), ("generate", time.perf_counter() - ready, tokens)]


def sample(job: SamplingJob) -> Sampled:
    """Draw the parts that an interrupted run did not draw, in this process or on `tensor_parallel` ranks.

    Raises:
        RankError: a rank failed or was killed; finished parts are kept.
    """
    missing, ranks, timings = job.parts.missing(), job.hardware.tensor_parallel, list[Timing]()
    if missing:
        rest = job.model_copy(update={"missing": missing})
        answer = rest.work() if ranks == 1 else run_on_ranks(rest, ranks, Path(job.output).parent)
        timings = [(name, seconds, tokens) for name, seconds, tokens in answer]
    before = {request.prompt_id for n, part in enumerate(job.parts.requests) if n not in missing for request in part}
    return Sampled(job.parts.read(), timings, f"{len(before)} prompts were drawn before" if before else "")


class Parts:
    """The samples of one job, in parts of whole prompts, in a hidden folder next to its output.

    Args:
        requests: in key order, the requests of a prompt one after the other.
        output: the table that the parts become.
        footer: of the job: digests of inputs and code, the slice of the configuration. Only parts with the same footer
            and the same requests are used.
        size: requests in a part, rounded up to whole prompts.

    Attributes:
        requests: of each part.
    """

    def __init__(
        self, requests: Sequence[Request], output: Path, footer: Mapping[str, Any], size: int = REQUESTS_PER_PART
    ) -> None:
        self.requests: list[list[Request]] = []
        for _, of_prompt in groupby(requests, lambda request: request.prompt_id):
            if not self.requests or len(self.requests[-1]) >= size:
                self.requests.append([])
            self.requests[-1] += of_prompt
        self._folder, self._footer = parts_folder(output), json.loads(json.dumps(footer))

    def missing(self) -> list[int]:
        """The numbers of the parts that are still to be drawn."""
        return [number for number in range(len(self.requests)) if self._read(number) is None]

    def write(self, number: int, completions: Sequence[Completion]) -> None:
        """Write a part that was drawn."""
        frame = rollout_frame(self.requests[number], completions)
        write_table(frame, "rollouts", self._file(number), self._footer_of(number))

    def read(self) -> pl.DataFrame:
        """All samples, once no part is missing.

        Raises:
            SchemaError: a part is missing, or differs from the part that was written.
        """
        parts = [rollout_frame([], [])]
        for number in range(len(self.requests)):
            part = self._read(number)
            if part is None:
                raise SchemaError(f"{self._file(number)}: not the part that was drawn; run snakemake again")
            parts.append(part)
        return pl.concat(parts)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.parquet"

    def _footer_of(self, number: int) -> dict[str, Any]:
        # Prompts and plan are in the footer of the job; the samples of a part are not.
        samples = [(request.prompt_id, request.sample_index, request.seed) for request in self.requests[number]]
        return {**self._footer, "requests": hashlib.sha256(json.dumps(samples).encode()).hexdigest()}

    def _read(self, number: int) -> pl.DataFrame | None:
        """A part; None if it is not there, is damaged, or was drawn with other inputs, settings or code."""
        file, footer = self._file(number), self._footer_of(number)
        try:
            written = read_footer(file) if file.is_file() else {}
            same = {name: written[name] for name in written if name not in ADDED} == footer
            return read_table(file, "rollouts") if same else None
        except SchemaError:
            return None
