"""`dphrl plan CONFIG ...`: memory, disk, jobs, tokens and hours of a run, before anything runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.plan.specs import MACHINES

_EXAMPLES = """\
examples:
  dphrl plan config/config.yaml                        the demo, on two CPU cores
  dphrl plan my.yaml --gpu-gib 80 --slots 4            on four H100

exit status: 0, 1 if something does not fit, 2 if the plan cannot be made"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status is 1 if something does not fit, 2 if the plan cannot be made."""
    parser = argparse.ArgumentParser(
        prog="dphrl plan",
        description="Memory per GPU, disk, jobs, tokens and hours of a configuration, from it and the model's\n"
        "config.json alone; where stages of the run are done, from what they measured.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "the configuration, for instance config/config.yaml; of several files, each changes those before it"
    parser.add_argument("config", type=Path, nargs="+", help=text)
    parser.add_argument(
        "--gpu-gib",
        type=float,
        help="memory of a GPU in GiB (default: hardware.gpu_gib); exit status 1 if a job does not fit",
    )
    parser.add_argument(
        "--machine", choices=MACHINES, help="default: cpu for the demo and with hardware.gpu_gib: null, else h100"
    )
    parser.add_argument(
        "--slots", type=int, help="GPUs, or CPU cores, that work at one time (default: 2, or those of the largest job)"
    )
    options = parser.parse_args(arguments)
    return _print_plan(options.config, options.gpu_gib, options.machine, options.slots)


def _print_plan(files: Sequence[Path], gpu_gib: float | None, machine: str | None, slots: int | None) -> int:
    """Print the plan of a configuration. Returns the exit status. A None is replaced by the default of the option."""
    # `--help` needs none of these.
    from dphrl.config.errors import ConfigError
    from dphrl.config.load import read_config
    from dphrl.plan.describe import check_memory, describe, memory_of, planned_gpu_gib, shape_of

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


if __name__ == "__main__":
    sys.exit(main())
