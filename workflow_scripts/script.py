"""Shared by all scripts of rules, which do their work inside `with stage(...) as job`; the block ends the process."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from snakemake.iocontainers import Snakemake

import __main__
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.machine.gpus import take_gpus
from dphrl.machine.private import private_temporary_folder
from dphrl.machine.progress import duration, log_to
from dphrl.machine.settings import tune_job
from dphrl.store.stage import Stage

# Snakemake defines it in the script that it runs.
snakemake: Snakemake = __main__.snakemake
log_to(snakemake.log[0])
# The name of this job in lines of progress: its rule and wildcards.
label = " ".join([snakemake.rule, *map(str, snakemake.wildcards)])
# Of the rules with a model, whose jobs read this block.
hardware = HardwareConfig(**snakemake.params.get("hardware", {}))
tune_job(snakemake.resources.get("gpu", 0), hardware.tensor_parallel)


@contextmanager
def stage(*blocks: str, libraries: Sequence[str] = ()) -> Iterator[Stage]:
    """The stage of this job, with arguments as in `Stage.of_job`. The process exits with 0 after the block."""
    job = Stage.of_job(snakemake, blocks, libraries)
    with private_temporary_folder(), job.part("total"):
        if snakemake.resources.get("nodes", 1) == 1:  # of several nodes, a scheduler has assigned them
            print("GPUs:", *take_gpus(snakemake.resources.get("gpu", 0)), flush=True)
        yield job
    seconds = duration(job.timings[-1]["seconds"])
    job.write_timings(snakemake.output.timings)
    job.last()
    print(f"{label}: done in {seconds}{f': {job.note}' if job.note else ''}", flush=True)
    # A normal exit costs 4 s with vLLM, 1.5 to 2 s with torch, else 0.1 s: 55 s in the demo's 85 jobs, of one core.
    os._exit(0)
