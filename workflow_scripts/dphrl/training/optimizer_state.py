"""The optimizer's state on disk: master weights and moments as safetensors, no pickle, private to this project."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from dphrl.training.collectives import rank, world_size


def save_state(engine: Any, folder: Path) -> None:
    """Write this rank's part of a DeepSpeed engine's optimizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for i, (parameter, state) in enumerate(_slots(engine)):
        tensors |= {f"{i}.master": parameter.detach(), **{f"{i}.state.{name}": value for name, value in state.items()}}
    # One entry only: safetensors writes several in an order that differs from run to run.
    save_file(tensors, _file(folder), metadata={"layout": _layout(engine)})


def load_state(engine: Any, folder: Path) -> None:
    """Restore the optimizer from what `save_state` wrote.

    Raises:
        ValueError: the state was written by another layout of ranks, ZeRO stage or model.
    """
    path = _file(folder)
    if not path.exists():
        raise ValueError(
            f"{path} is missing: the state was written by another number of ranks than the {world_size()} of this run"
        )
    with safe_open(path, framework="pt") as file:
        found = file.metadata()["layout"]
        if found != _layout(engine):
            raise ValueError(
                f"{path}: written by {found}, but this run is {_layout(engine)}: use the ranks and the ZeRO stage that"
                " it was written with, or start this training anew"
            )
        for i, (parameter, state) in enumerate(_slots(engine)):
            parameter.data.copy_(file.get_tensor(f"{i}.master"))
            prefix = f"{i}.state."
            for key in file.keys():  # noqa: SIM118
                if key.startswith(prefix):
                    value = file.get_tensor(key)
                    # AdamW keeps its step count on the CPU, where an offloaded optimizer is as a whole.
                    state[key.removeprefix(prefix)] = value.to(parameter.device) if value.ndim else value


def _file(folder: Path) -> Path:
    return folder / f"optimizer-{rank():03d}.safetensors"


def _slots(engine: Any) -> list[tuple[Tensor, dict[str, Tensor]]]:
    """Each master tensor of the inner optimizer with its moments."""
    wrapper = engine.optimizer
    inner = getattr(wrapper, "optimizer", wrapper)
    # In ZeRO-3 the inner optimizer holds the flat partitions only during a step.
    masters = getattr(wrapper, "fp32_partitioned_groups_flat", None)
    if masters is None:
        masters = [parameter for group in inner.param_groups for parameter in group["params"]]
    return [(parameter, inner.state[parameter]) for parameter in masters]


def _layout(engine: Any) -> str:
    facts = {
        "world_size": world_size(),
        "zero_stage": engine.zero_optimization_stage(),
        "masters": [parameter.numel() for parameter, _ in _slots(engine)],
    }
    return json.dumps(facts, sort_keys=True)
