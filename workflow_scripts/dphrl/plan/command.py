"""The command `dphrl plan`."""

import sys
from pathlib import Path

from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.plan.describe import check_memory, describe, planned_gpu_gib, shape_of


def run(file: Path, gpu_gib: float | None, machine: str | None, slots: int) -> int:
    """Print the plan of a configuration.

    Args:
        file: the configuration.
        gpu_gib: memory of a GPU in GiB, if a training has to fit.
        machine: a name of `MACHINES`; by default h100 for a run on GPUs or with `gpu_gib`, else cpu.
        slots: GPUs, or CPU cores, that work at one time.

    Returns:
        The exit status: 1 if something does not fit, 2 if the plan cannot be made.
    """
    folder = Path.cwd()
    try:
        config = read_config(file)
        shape = shape_of(config, folder)
        on_gpus = gpu_gib or planned_gpu_gib(config)
        print(describe(config, folder, machine or ("h100" if on_gpus else "cpu"), slots))
    except (OSError, ValueError, ConfigError) as error:
        print(f"dphrl.plan: {error}", file=sys.stderr)
        return 2
    try:
        if gpu_gib and shape:
            check_memory(config, shape, gpu_gib)
    except ConfigError as error:
        print(f"\nThis does not fit.\n{error}")
        return 1
    return 0
