"""What is on the GPU at once, shown on a CPU: by tensors without data, and by moves between devices."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from published import LLAMA_8B as PUBLISHED
from tiny_training import hardware, train_config
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import MethodConfig
from dphrl.plan.memory import ModelShape, Setting, phases
from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.training.trainer import Trainer

PROGRAM = Path(__file__).resolve().parents[2] / "support" / "partitioned_start.py"
LLAMA_8B = {name: size for name, size in PUBLISHED.items() if name != "model_type"}
LLAMA_8B |= {"num_hidden_layers": 2, "tie_word_embeddings": False}
MOVE = Tensor.to


def test_a_model_of_real_size_is_divided_with_one_whole_weight_at_a_time() -> None:
    """In bytes, of tensors without data; each size is a multiple of the number of ranks."""
    program = [sys.executable, str(PROGRAM), "8", json.dumps(LLAMA_8B)]
    found = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1])
    assert found["most"] == found["model"] / 8 + found["largest"]
    assert found["kept"] == found["model"] / 8 + found["buffers"]
    shape = ModelShape.from_config({"model_type": "llama", **LLAMA_8B})
    start = phases(shape, Setting(HardwareConfig(ranks=8, zero_stage=3)))[0]
    assert start.parts["weights"] + start.parts["largest weight"] == found["most"]


class Moves:
    """The bytes of matrices that were moved to a device and not freed: now and at most."""

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
        if tensor.dim() > 1 and tensor.is_floating_point():
            self.held[StorageWeakRef(moved.untyped_storage())] = moved.nbytes
            self.most = max(self.most, self.now())
        return moved


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Moves]:
    """Each move is a copy meanwhile, as if the device were another than that of the loaded model."""
    moves = Moves()
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "to", lambda tensor, *args, **options: moves.move(tensor, *args, **options))
        yield moves


@pytest.mark.usefixtures("one_rank")
def test_without_zero_3_the_reference_model_is_on_the_gpu_only_while_it_is_used(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, reference = (load_model(base, "bfloat16") for _ in range(2))
    size = sum(parameter.nbytes for parameter in model.parameters() if parameter.dim() > 1)
    config, row = train_config(dtype="bfloat16"), Row([3, 4, 5], [6, 7, 8])
    with recorded(monkeypatch) as making:
        trainer = Trainer(
            model, config, hardware(zero_stage=1), MethodConfig(divergence="reverse_kl"), reference_model=reference
        )
    # DeepSpeed copies the weights that it trains into one flat tensor.
    assert (making.most, making.now()) == (size, 0)
    with recorded(monkeypatch) as using:
        (logprobs,) = trainer.reference_logprobs([row])
    assert (using.most, using.now()) == (size, 0)
    assert logprobs.equal(response_logprobs(LogProbs(load_model(base, "bfloat16")), [row], 100)[0])
