"""Low-rank adapters (arXiv 2106.09685): only they are trained; engine and saved policy get them merged."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dphrl.config.blocks.methods import LoraConfig

_FILE = "adapters.safetensors"
_NAME = "default"
_ADAPTER = ".lora_"
_BASE = ".base_layer."

Gather = Callable[[Sequence[nn.Parameter]], AbstractContextManager[None]]


def add_adapters(model: nn.Module, config: LoraConfig, seed: int) -> None:
    """Add adapters to a model in place, without effect at first, and freeze everything else.

    Raises:
        ValueError: the model has no layer of these names.
    """
    import peft

    torch.manual_seed(seed)
    settings = peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=list(config.targets))
    peft.inject_adapter_in_model(settings, model, adapter_name=_NAME)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(_ADAPTER in name)


@torch.no_grad()
def merged_weights(model: nn.Module, gather: Gather) -> Iterator[tuple[str, Tensor]]:
    """The weights under their Hugging Face names, adapters merged into their layers.

    Args:
        model: with or without adapters.
        gather: a context in which partitioned parameters are whole (ZeRO-3).
    """
    adapted = {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    for name, parameter in model.named_parameters():
        if _ADAPTER in name:
            continue
        layer, _, kind = name.partition(_BASE)
        plain = name.replace(_BASE, ".")
        if layer in adapted and kind == "weight":
            adapters = [other for key, other in adapted[layer].named_parameters() if "lora_" in key]
            with gather([parameter, *adapters]):
                yield plain, parameter + adapted[layer].get_delta_weight(_NAME).to(parameter)
        else:
            with gather([parameter]):
                yield plain, parameter.detach()


def save_adapters(model: nn.Module, folder: Path, gather: Gather, *, write: bool) -> None:
    """Write the adapters: they cannot be recovered from the merged policy. All ranks must call, one with `write`."""
    adapters = _adapters(model)
    with gather(list(adapters.values())):
        if write:
            save_file({name: adapter.detach() for name, adapter in adapters.items()}, folder / _FILE)


@torch.no_grad()
def load_adapters(model: nn.Module, folder: Path) -> None:
    """Load the adapters that `save_adapters` wrote.

    Raises:
        ValueError: they are of other layers or another rank.
    """
    path = folder / _FILE
    ours, found = _adapters(model), load_file(path)
    if {name: adapter.shape for name, adapter in ours.items()} != {name: value.shape for name, value in found.items()}:
        raise ValueError(
            f"{path}: holds {len(found)} adapters of other layers or another rank than `lora` now"
            f" specifies ({len(ours)}): restore the earlier `lora`, or start this training anew"
        )
    for name, adapter in ours.items():
        adapter.copy_(found[name])


def _adapters(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if _ADAPTER in name}
