"""The program of each rank in a test: several jobs of the reference stage, one after the other.

Arguments: after how many seconds a rank that hangs ends, and files with the text that each rank of a job gets.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

from torch import nn

from dphrl.config.blocks.base import Dtype
from dphrl.policy.collectives import divide_frozen
from dphrl.training import reference as build

divided: list[nn.Module] = []


def divide(module: nn.Module, dtype: Dtype) -> None:
    """As the stage does; the model is kept for a later check."""
    divide_frozen(module, dtype)
    divided.append(module)


def check_divided(module: nn.Module) -> None:
    """No matrix is whole: each was freed after its last use, the head too."""
    whole = [name for name, weight in module.named_parameters() if weight.numel() and weight.dim() > 1]
    assert not whole, f"{whole} are whole"


def main(seconds: str, *jobs: str) -> None:
    """Do the jobs."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    build.divide_frozen = divide
    for job in jobs:
        build.ReferenceJob.model_validate_json(Path(job).read_text()).work()
        check_divided(divided[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
