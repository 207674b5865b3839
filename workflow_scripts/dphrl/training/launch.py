"""Runs a segment in this process or on its ranks."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import replacing_folder
from dphrl.artifacts.private import private_temporary_folder
from dphrl.ranks.launch import ONE_NODE, Nodes, RankError, answer_of_ranks, cores_of_rank, threads_of_rank
from dphrl.tasks.partition_counts import require_rehearsal
from dphrl.training import rank_process
from dphrl.training.job import SegmentJob, Trained, run_job


def train_segment(job: SegmentJob, nodes: Nodes = ONE_NODE) -> Trained:
    """Run a segment on `hardware.ranks` ranks, spread over the nodes; a single one runs in this process.

    Policy and state are put in place when all ranks are done.

    Raises:
        RankError: a rank failed or was killed; nothing was put in place, so the segment can be run again.
        NoRehearsalError: D_pef is empty, but the method rehearses it.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    if job.reference:
        require_rehearsal(pl.scan_parquet(job.partition, glob=False), job.training)
    outputs = replacing_folder(Path(job.policy_out)), replacing_folder(Path(job.state_out))
    with private_temporary_folder(), outputs[0] as policy, outputs[1] as state:
        workers = min(job.workers, cores_of_rank(job.machine.ranks, nodes.number))
        job = replace(job, policy_out=str(policy), state_out=str(state), workers=workers)
        if job.machine.ranks > 1 or nodes.number > 1:
            return _run_on_ranks(job, nodes)
        torch.set_num_threads(threads_of_rank(1))
        return run_job(job)


def _run_on_ranks(job: SegmentJob, nodes: Nodes) -> Trained:
    # Next to the job's folders, where ranks on other machines see it too.
    folder = Path(job.state_out).parent
    try:
        answer = answer_of_ranks(job.machine.ranks, rank_process.__name__, job.to_json(), folder, nodes)
    except RankError as error:
        raise RankError(
            f"{job.label}: {error}; see the end of this log. Nothing of this segment was kept: run snakemake again,"
            " and it starts from the last state."
        ) from None
    timings = [tuple(timing) for timing in answer["timings"]]
    metrics, probes = (SCHEMAS[name].frame(answer[name]) for name in ("metrics", "probes"))
    return Trained(metrics, probes, timings, answer["digests"])
