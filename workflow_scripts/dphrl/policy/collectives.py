"""The ranks of one job: their process group, sums, lists and maxima over all ranks, and models that they divide.

The weights of a divided model (ZeRO-3) are parted between the ranks: a layer is whole only while it computes.
"""

import atexit
import json
import os
import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import pad

from dphrl.config.blocks.base import Dtype
from dphrl.machine.private import use_private_caches

# How long ranks wait for each other. By default it is 10 minutes, which refills and slow queries of one rank exceed; a
# rank that is lost does not count, as it ends the others (see `launch`).
PATIENCE = timedelta(hours=6)

_control: dist.ProcessGroup | None = None


def start_process_group() -> None:
    """Join the process group of the environment (as set by torchrun), or make one of this process alone.

    The sampling engine shares it. Lists, sums and maxima go through a second group, on the CPU: a rank that waits in it
    for another waits in no kernel of its GPU, whose groups are DeepSpeed's and have their own, short timeout.
    """
    global _control
    use_private_caches()
    import deepspeed

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    defaults = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {name: value for name, value in defaults.items() if name not in os.environ}
    # DeepSpeed would compile a shared-memory all-reduce here; a build that is killed leaves a lock others wait on.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    deepspeed.init_distributed(backend, timeout=PATIENCE, verbose=False)
    _control = control_group(dist.get_world_size())


@atexit.register
def _leave_process_group() -> None:
    """A program that ends with its groups open is aborted now and then: 3 of 24 ends measured."""
    if dist.is_initialized():
        dist.destroy_process_group()


def control_group(size: int) -> dist.ProcessGroup:
    """A group for `all_gather`: this rank and those next to it, `size` in all, which divides the number of ranks."""
    return dist.new_subgroups(size, backend="gloo", timeout=PATIENCE)[0]


# The number of this process, from 0, and the number of processes.
rank, world_size = dist.get_rank, dist.get_world_size


def all_reduce_sum(values: Mapping[str, float]) -> dict[str, float]:
    """Sums over all ranks by name; a name that a rank lacks counts as 0 there."""
    parts = all_gather(dict(values))
    names = sorted({name for part in parts for name in part})
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}


def all_gather(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """The values of all ranks in their order: anything that JSON can hold.

    Sent as text, since PyTorch would send objects as pickles.

    Args:
        group: the ranks that take part, of `control_group`; None: all.
    """
    group = _control if group is None else group
    if dist.get_world_size(group) == 1:
        return [value]
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    lengths = _gather_tensor(torch.tensor([len(text)]), group)
    padded = pad(text, (0, int(max(lengths)) - len(text)))
    texts = zip(_gather_tensor(padded, group), lengths, strict=True)
    return [json.loads(part[: int(length)].numpy().tobytes()) for part, length in texts]


def all_reduce_max(value: float) -> float:
    """The largest value of all ranks; NaN if the value of any rank is NaN."""
    return float(torch.tensor(all_gather(value), dtype=torch.float64).max())


def sum_on_first(tensor: torch.Tensor) -> None:
    """Put the sum over all ranks into the tensor of rank 0, on the CPU. The tensors of other ranks become undefined."""
    dist.reduce(tensor, 0, group=_control)


def _gather_tensor(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> list[torch.Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, tensor, group=group)
    return parts


def partition(model: nn.Module, settings: dict[str, Any]) -> None:
    """Divide the parameters of a model on the CPU between the ranks, one after the other.

    DeepSpeed's own initialisation would first move the whole model to the GPU.
    """
    import deepspeed

    dtype = torch.bfloat16 if settings["bf16"]["enabled"] else torch.float32
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)  # Not copied if it has this type, as all but new adapters do.
    deepspeed.zero.Init(module=model, config_dict_or_path=settings)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(deepspeed.accelerator.get_accelerator().current_device_name())


def divide_frozen(module: nn.Module, dtype: Dtype) -> None:
    """Divide a model of this dtype that is not trained; its calls, which all ranks make together, gather the weights.

    Args:
        module: on the CPU.
    """
    import deepspeed

    settings = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": dtype == "bfloat16"},
    }
    partition(module.requires_grad_(False), settings)
    deepspeed.initialize(model=module, config=settings)  # Adds the hooks that gather a layer's weights.
