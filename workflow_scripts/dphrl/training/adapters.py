"""Low-rank adapters: only they are trained; the engine and the saved policy get them merged (arXiv 2106.09685)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.config.methods import LoraConfig

_FILE = "adapters.safetensors"
_NAME = "default"


def add_adapters(model: PreTrainedModel, config: LoraConfig, seed: int) -> None:
    """Put adapters, the identity at first, into a model in place, and freeze everything else.

    Raises:
        ValueError: the model has no layer of these names.
    """
    import peft

    torch.manual_seed(seed)
    settings = peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=list(config.targets))
    peft.inject_adapter_in_model(settings, model, adapter_name=_NAME)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)


@torch.no_grad()
def merged_weights(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """The weights under their Hugging Face names, the adapters added to the layers that they belong to."""
    from peft.tuners.lora import LoraLayer

    layers: dict[str, Any] = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            continue
        layer, found, kind = name.partition(".base_layer.")
        if found and kind == "weight":
            yield f"{layer}.weight", parameter + layers[layer].get_delta_weight(_NAME).to(parameter)
        else:
            yield f"{layer}.{kind}" if found else name, parameter.detach()


def save_adapters(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapters: the merged policy does not tell them."""
    parts = {name: parameter.detach() for name, parameter in model.named_parameters() if ".lora_" in name}
    save_file(parts, folder / _FILE)


def load_adapters(model: PreTrainedModel, folder: Path) -> None:
    """Take up the adapters that `save_adapters` wrote."""
    missing = model.load_state_dict(load_file(folder / _FILE), strict=False).unexpected_keys
    if missing:
        raise ValueError(f"{folder / _FILE}: holds adapters of other layers, {missing[0]} for one; start this anew")
