"""A program of a test: what dividing a model of real size needs (ZeRO-3), with tensors that have sizes and no data.

It is one rank, in a process group that sends nothing. Its GPU is the CPU, but what is moved there is copied.
Arguments: number of ranks, and settings of `LlamaConfig` as JSON. Prints bytes as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM

from dphrl.policy.collectives import partition


class CopyingMoves(TorchFunctionMode):
    """Each move to a device is a copy."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if function is Tensor.to and any(isinstance(v, str | torch.device) for v in (*args, *options.values())):
            options["copy"] = True
        return function(*args, **options)


class Allocated(TorchDispatchMode):
    """The bytes that operators allocate, now and at most, apart from those of some tensors."""

    def __init__(self, before: list[Tensor]) -> None:
        super().__init__()
        # Kept, or a new tensor could have the address of one of them.
        self._storages = [tensor.untyped_storage() for tensor in before]
        self._before = {StorageWeakRef(storage) for storage in self._storages}
        self._held: dict[StorageWeakRef, int] = {}
        self.most = 0

    @property
    def now(self) -> int:
        self._held = {storage: size for storage, size in self._held.items() if not storage.expired()}
        return sum(self._held.values())

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = StorageWeakRef(tensor.untyped_storage())
                if storage not in self._before:
                    self._held[storage] = tensor.untyped_storage().nbytes()
        self.most = max(self.most, self.now)
        return result


def main(ranks: str, settings: str) -> None:
    """Divide the model and print what that took."""
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": ranks}
    dist.init_process_group("fake", rank=0, world_size=int(ranks), store=FakeStore())
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("fake", verbose=False)
    torch.set_default_dtype(torch.bfloat16)
    with FakeTensorMode():
        model = LlamaForCausalLM(LlamaConfig(**json.loads(settings)))
        parameters = [parameter.nbytes for parameter in model.parameters()]
        before = [parameter.data for parameter in model.parameters()]
        with CopyingMoves(), Allocated(before) as allocated:
            zero = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
            partition(model, zero)
    buffers = sum(buffer.nbytes for buffer in model.buffers())
    found = {"model": sum(parameters), "largest": max(parameters), "buffers": buffers}
    print(json.dumps({**found, "most": allocated.most, "kept": allocated.now}))


if __name__ == "__main__":
    main(*sys.argv[1:])
