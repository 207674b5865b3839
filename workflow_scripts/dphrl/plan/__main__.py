"""`dphrl plan CONFIG ...`: what a run will need, before anything runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.plan.machines import MACHINES

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
    given = parser.parse_args(arguments)
    # Help needs none of this.
    from dphrl.plan.command import run

    return run(given.config, given.gpu_gib, given.machine, given.slots)


if __name__ == "__main__":
    sys.exit(main())
