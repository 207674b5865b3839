"""The command `dphrl plan`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.plan.describe import check_memory, describe, memory_of, planned_gpu_gib, shape_of


def run(files: Sequence[Path], gpu_gib: float | None, machine: str | None, slots: int | None) -> int:
    """Print the plan of a configuration.

    Args:
        files: of the configuration; each changes those before it.
        gpu_gib: memory of a GPU in GiB; by default that of `hardware`, unless the run needs no GPU.
        machine: a name of `MACHINES`; by default h100 where GPUs have a memory, else cpu.
        slots: GPUs, or CPU cores, that work at one time; by default 2, or as many as the largest job takes.

    Returns:
        The exit status: 1 if something does not fit, 2 if the plan cannot be made.
    """
    folder = Path.cwd()
    try:
        config = read_config(*files)
        shape = shape_of(config, folder)
        gpu_gib = gpu_gib or planned_gpu_gib(config)
        largest = max(config.hardware.ranks, config.hardware.tensor_parallel)
        slots = slots or max(2, largest)
        print(describe(config, folder, machine or ("h100" if gpu_gib else "cpu"), slots))
    except (OSError, ValueError, ConfigError) as error:
        print(f"dphrl.plan: {error}", file=sys.stderr)
        return 2
    if not (gpu_gib and shape):
        return 0
    try:
        check_memory(config, shape, gpu_gib)
    except ConfigError as error:
        print(f"\nThis does not fit.\n{error}")
        return 1
    if slots < largest:
        print(f"\nThis does not fit.\nhardware: a job takes {largest} GPUs at one time, and --slots has {slots}")
        return 1
    print(f"\nEverything fits on GPUs of {memory_of(gpu_gib * 2**30)}.")
    return 0
