"""Low-rank adapters (arXiv 2106.09685): only they are trained; engine and saved policy get them merged."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from dphrl.config.blocks.training import LoraConfig

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


def plain_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters without adapters, under their Hugging Face names."""
    return {n.replace(_BASE, "."): parameter for n, parameter in model.named_parameters() if _ADAPTER not in n}


@torch.no_grad()
def merged_weights(
    model: nn.Module, gather: Gather, names: Iterable[str] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """The weights under their Hugging Face names, adapters merged into their layers.

    Args:
        model: with or without adapters.
        gather: a context in which partitioned parameters are whole (ZeRO-3); it ends when the next weight is asked for.
        names: which, in this order; None: all, in that of the model.
    """
    adapted = {f"{n}.weight": layer for n, layer in model.named_modules() if hasattr(layer, "get_delta_weight")}
    parameters = plain_parameters(model)
    for name in parameters if names is None else names:
        parameter, layer = parameters[name], adapted.get(name)
        if layer is None:
            with gather([parameter]):
                yield name, parameter.detach()
        else:
            adapters = [other for key, other in layer.named_parameters() if "lora_" in key]
            with gather([parameter, *adapters]):
                yield name, parameter + layer.get_delta_weight(_NAME).to(parameter)
