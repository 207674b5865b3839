"""The samples of one job: drawn in this process or on ranks, or in part by an interrupted run before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dphrl.artifacts.stage import Timing
from dphrl.ranks.launch import RankError, answer_of_ranks
from dphrl.rollout import rank_process
from dphrl.rollout.sampling_job import SamplingJob, draw


class Sampled(NamedTuple):
    """The samples, with seconds and tokens of what was drawn now, and in words how much had been drawn before."""

    rows: pl.DataFrame
    timings: list[Timing]
    note: str


def sample(job: SamplingJob) -> Sampled:
    """Draw what an interrupted run of the same job has not drawn, in this process or on `tensor_parallel` ranks.

    Raises:
        RankError: a rank failed or was killed; what was drawn before is kept.
    """
    missing = job.parts.missing()
    timings = [] if not missing else draw(job, missing) if job.ranks == 1 else _draw_on_ranks(job, missing)
    before = {one.prompt_id for n, part in enumerate(job.parts.requests) if n not in missing for one in part}
    return Sampled(job.parts.read(), timings, f"{len(before)} prompts were drawn before" if before else "")


def _draw_on_ranks(job: SamplingJob, missing: Sequence[int]) -> list[Timing]:
    text = json.dumps({"job": job.plain(), "missing": missing})
    try:
        answer = answer_of_ranks(job.ranks, rank_process.__name__, text, Path(job.output).parent)
    except RankError as error:
        raise RankError(
            f"{job.label}: {error}; see the end of this log. What was drawn is kept: run snakemake again, and the rest"
            " is drawn."
        ) from None
    return [(name, seconds, tokens) for name, seconds, tokens in answer]
