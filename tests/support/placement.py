"""The program of each rank in a test: which whole weights are on the device at once.

A copy is made for every move, as if the device were another one than that of the loaded model. Arguments: the folder of
a policy, that of results, and the ZeRO stages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import hardware, train_config
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from dphrl.config.blocks.training import MethodConfig
from dphrl.model.batch import Row
from dphrl.model.logprobs import LogProbs, load_model, response_logprobs
from dphrl.ranks.collectives import rank, start_process_group, world_size
from dphrl.training.trainer import Trainer

MOVE = Tensor.to


class Moves:
    """The bytes of whole matrices that were moved and not freed: now and at most."""

    def __init__(self) -> None:
        self.held: dict[StorageWeakRef, int] = {}
        self.most = 0

    def now(self) -> int:
        self.held = {storage: size for storage, size in self.held.items() if not storage.expired()}
        return sum(self.held.values())

    def move(self, tensor: Tensor, *args: Any, **options: Any) -> Tensor:
        if not any(isinstance(value, str | int | torch.device) for value in (*args, options.get("device"))):
            return MOVE(tensor, *args, **options)
        moved = MOVE(tensor, *args, **{**options, "copy": True})
        if tensor.dim() > 1:
            self.held[StorageWeakRef(moved.untyped_storage())] = moved.nbytes
            self.most = max(self.most, self.now())
        return moved


@contextmanager
def recorded() -> Iterator[Moves]:
    moves = Moves()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "to", lambda tensor, *args, **options: moves.move(tensor, *args, **options))
        yield moves


def measure(policy: Path, stage: int) -> dict[str, Any]:
    """Bytes of whole matrices: at most and at the end of making a trainer, and of computing reference log-probs."""
    model, reference = (load_model(policy, "bfloat16") for _ in range(2))
    sizes = [parameter.nbytes for parameter in model.parameters()]
    found: dict[str, Any] = {"model": sum(sizes), "largest": max(sizes)}
    config, machine = train_config(dtype="bfloat16"), hardware(ranks=world_size(), zero_stage=stage)
    row = Row([3, 4, 5], [6, 7, 8])
    with recorded() as moves:
        trainer = Trainer(model, config, machine, MethodConfig(divergence="reverse_kl"), reference_model=reference)
    found["making"] = moves.most, moves.now()
    # With ZeRO-3 DeepSpeed moves what it has not waited for, which must be no copy.
    with recorded() if stage < 3 else nullcontext(Moves()) as moves:
        (logprobs,) = trainer.reference_logprobs([row])
    found["using"] = moves.most, moves.now()
    # After DeepSpeed has put its own linear layer in place.
    (expected,) = response_logprobs(LogProbs(load_model(policy, "bfloat16")), [row], 100)
    parts = [sum(getattr(p, "ds_tensor", p).nbytes for p in m.parameters()) for m in (trainer.model, reference)]
    return {**found, "parts": parts, "same": logprobs.equal(expected)}


def main(policy: str, folder: str, *stages: str) -> None:
    """Measure each stage."""
    start_process_group()
    found = {stage: measure(Path(policy), int(stage)) for stage in stages}
    Path(folder, f"{rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
