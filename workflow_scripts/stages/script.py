"""Shared by all scripts of rules, which do their work inside `with stage(...) as job`; the block ends the process."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil
from snakemake.iocontainers import Snakemake

import __main__
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.machine.cause import print_cause
from dphrl.machine.gpus import take_gpus
from dphrl.machine.private import private_temporary_folder
from dphrl.machine.progress import duration, log_to
from dphrl.machine.settings import tune_job
from dphrl.store.stage import Stage

# Snakemake defines it in the script that it runs.
snakemake: Snakemake = __main__.snakemake
log_to(snakemake.log[0])
sys.excepthook = print_cause
# Of the rules with a model, whose jobs read this block.
hardware = HardwareConfig(**snakemake.params.get("hardware", {}))
tune_job(snakemake.resources.get("gpu", 0), hardware.tensor_parallel)


@contextmanager
def stage(*blocks: str, libraries: Sequence[str] = ()) -> Iterator[Stage]:
    """The stage of this job. After the block, timings are written and the process exits with 0: no later code runs.

    Args:
        blocks: params that are blocks of the configuration; footers record them.
        libraries: distributions whose versions can change the result.
    """
    resources, started = snakemake.resources, time.perf_counter()
    imports = time.time() - psutil.Process().create_time()
    if resources.get("nodes", 1) == 1:  # of several nodes, a scheduler has assigned them
        gpus = take_gpus(resources.get("gpu", 0))
        print("GPUs:", *gpus, flush=True)
    job = Stage.of_job(snakemake, blocks, libraries)
    job.add_timing("imports", imports)  # with the start of the process; not in the total
    with private_temporary_folder():
        yield job
        seconds = time.perf_counter() - started
        job.add_timing("total", seconds)
        job.write_timings(snakemake.output.timings)
        job.last()
    print(f"{label()}: done in {duration(seconds)}{f': {job.note}' if job.note else ''}", flush=True)
    # A normal exit costs 4 s with vLLM, 1.5 to 2 s with torch, else 0.1 s: 55 s in the demo's 85 jobs, of one core.
    os._exit(0)


def label() -> str:
    """The name of this job in lines of progress: its rule and wildcards."""
    return " ".join([snakemake.rule, *(str(value) for value in snakemake.wildcards)])
