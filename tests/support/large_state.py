"""The program of a rank that saves and restores states, and records the memory that this took beyond the states.

Arguments: a folder for its results, and the width and the numbers of layers of the models. A copy to the CPU is made as
if the tensor were on a GPU, and takes as long as the thread that watches needs to see it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from meanwhile import meanwhile
from tiny_models import tiny_llama
from tiny_training import hardware, train_config
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.batch import Row
from dphrl.policy.collectives import start_process_group
from dphrl.training.loss import Example
from dphrl.training.optimizer import load_state
from dphrl.training.trainer import Trainer


def anonymous() -> int:
    """MiB of this process that are not files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1024


def kept() -> int:
    """The same after all that is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return anonymous()


@contextmanager
def beyond(found: dict[str, int], name: str) -> Iterator[None]:
    """Record the highest MiB in the block above those before and after it."""
    before = peak = kept()

    def watch() -> None:
        nonlocal peak
        peak = max(peak, anonymous())

    with meanwhile(watch, 0.001):
        yield
    found[name] = peak - max(before, kept())


def copied(tensor: Tensor) -> Tensor:
    copy = tensor.clone()
    time.sleep(0.003)
    return copy


def measure(width: int, layers: int, folder: Path) -> dict[str, int]:
    """Save and restore one state; MiB of it, and beyond it by part."""
    shape: Any = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}

    def trainer() -> Trainer:
        return Trainer(tiny_llama(**shape), train_config(), hardware(gradient_checkpointing=True), MethodConfig())

    first = trainer()
    first.update([Example(Row([3, 4], [5]), advantage=1.0)], 1e-3)
    found: dict[str, int] = {}
    with beyond(found, "save_state"):
        first.save_state(folder / "state")
    with beyond(found, "save_policy"):
        first.save_policy(folder / "policy")
    del first
    again = trainer()
    with beyond(found, "load_state"):
        load_state(again._deepspeed, folder / "state")
    found["state"] = sum(file.stat().st_size for file in (folder / "state").iterdir()) >> 20
    return found


def main(folder: str, width: str, *layers: str) -> None:
    """Measure each model."""
    start_process_group()
    torch.Tensor.cpu = copied  # type: ignore[assignment, method-assign]
    found = [measure(int(width), int(number), Path(folder, number)) for number in layers]
    Path(folder, "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
