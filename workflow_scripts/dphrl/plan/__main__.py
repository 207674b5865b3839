"""`python -m dphrl.plan CONFIG`: what a run will need, before anything runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.plan.describe import check_memory, describe, shape_of
from dphrl.plan.rates import MACHINES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status is 1 if something does not fit, 2 if the plan cannot be made."""
    parser = argparse.ArgumentParser(
        prog="python -m dphrl.plan",
        description="Memory per GPU, disk, jobs, tokens and hours of a configuration, from it and the model's "
        "config.json alone; where stages of the run are done, from what they measured.",
    )
    parser.add_argument("config", type=Path, help="the configuration, for instance config/config.yaml")
    parser.add_argument(
        "--gpu-gib", type=float, help="memory of a GPU in GiB; exit status 1 if a training does not fit"
    )
    parser.add_argument("--machine", choices=MACHINES, help="default: h100 with --gpu-gib, else cpu")
    parser.add_argument("--slots", type=int, default=2, help="GPUs, or CPU cores, that work at one time (default: 2)")
    given = parser.parse_args(arguments)
    folder = Path.cwd()
    try:
        config = read_config(given.config)
        shape = shape_of(config, folder)
        print(describe(config, folder, given.machine or ("h100" if given.gpu_gib else "cpu"), given.slots))
    except (OSError, ValueError, ConfigError) as error:
        print(f"dphrl.plan: {error}", file=sys.stderr)
        return 2
    try:
        if given.gpu_gib and shape:
            check_memory(config, shape, given.gpu_gib)
    except ConfigError as error:
        print(f"\nThis does not fit.\n{error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
