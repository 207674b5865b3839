"""The program of one rank of a sampling job."""

import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from dphrl.artifacts.stage import Timing
from dphrl.ranks.process import run_rank
from dphrl.rollout.sampling_job import SamplingJob, draw

# How long the ranks wait for each other, which all load the same model; a rank that is lost ends the others.
_PATIENCE = timedelta(hours=1)


def work(job: str) -> list[Timing]:
    """Draw the missing parts together with the other ranks; rank 0 writes them."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    given = json.loads(job)
    return draw(SamplingJob.of(given["job"]), given["missing"])


if __name__ == "__main__":
    run_rank(work)
