"""The processes that share one training: who they are, and what they must agree on."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import torch
import torch.distributed as dist


def start_process_group() -> None:
    """Join the process group that the environment describes (torchrun's), or make one of this process alone.

    The engine of the rollouts shares it.
    """
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
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo", verbose=False)


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank()


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size()


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """Sums over all ranks by name; a rank without a name, as one that had no such row, adds nothing to it."""
    parts: list[Mapping[str, float]] = [values] * world_size()
    if world_size() > 1:
        dist.all_gather_object(parts, dict(values))
    names = sorted({name for part in parts for name in part})
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}


def largest(value: float) -> float:
    """The largest of all ranks' values."""
    found = torch.tensor([value], dtype=torch.float64, device=_device())
    if world_size() > 1:
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return float(found)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
