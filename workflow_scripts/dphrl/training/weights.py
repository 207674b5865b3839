"""The weights of a policy under their Hugging Face names: low-rank adapters merged, and written as safetensors files.

Adapters (arXiv 2106.09685): only they are trained; engine and saved policy get them merged. Files are written a few
megabytes at a time from the GPU.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from dphrl.config.blocks.training import LoraConfig
from dphrl.store.tensors import Entry, file_order, write_tensors

_NAME = "default"
_ADAPTER = ".lora_"
_BASE = ".base_layer."
_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16"}
_PIECE = 1 << 22
_SHARD_BYTES = 4 << 30

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
        names: of the weights, in this order; None: all, in the order of the model.
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


def pieces(tensors: Iterable[Tensor]) -> Iterator[memoryview]:
    """The bytes of tensors, one after the other."""
    for tensor in tensors:
        for piece in tensor.detach().flatten().split(_PIECE):
            yield memoryview(piece.cpu().view(torch.uint8).numpy())


def save_policy(model: PreTrainedModel, folder: Path, gather: Gather, *, write: bool) -> dict[str, str]:
    """Write a Hugging Face folder: all ranks must call, one with `write`.

    Args:
        model: with or without adapters, which are merged.
        gather: a context in which partitioned parameters are whole (ZeRO-3).

    Returns:
        The sha256 of each file of weights.
    """
    parameters = plain_parameters(model)
    shapes = {name: tuple(getattr(p, "ds_shape", p.shape)) for name, p in parameters.items()}
    without_data = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    if revert_weight_conversion(model, without_data).keys() != parameters.keys():
        # A mixture of experts has other tensors on disk than in memory: transformers converts them, all at once.
        weights = {n: w.cpu() if write else torch.empty(0) for n, w in merged_weights(model, gather)}
        if write:
            model.save_pretrained(folder, state_dict=weights)
        return {}
    if write:
        model.save_pretrained(folder, state_dict={})  # The settings alone.
    entries = {name: Entry(_DTYPES[p.dtype], shapes[name]) for name, p in parameters.items()}
    shards = _shards(entries)
    digests = {}
    for file, part in shards.items():
        weights_of_shard = (weight for _, weight in merged_weights(model, gather, file_order(part)))
        if write:
            digests[file] = write_tensors(folder / file, part, pieces(weights_of_shard), {"format": "pt"})
        for _ in weights_of_shard:
            pass
    if write and len(shards) > 1:
        elements = sum(torch.Size(shape).numel() for shape in shapes.values())
        index = {
            "metadata": {"total_parameters": elements, "total_size": sum(entry.size for entry in entries.values())},
            "weight_map": {name: file for file, part in shards.items() for name in part},
        }
        text = json.dumps(index, indent=2, sort_keys=True) + "\n"
        (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return digests


def _shards(entries: dict[str, Entry]) -> dict[str, dict[str, Entry]]:
    """The entries of each file, of at most 4 GiB where tensors are not larger, in file order."""
    shards: list[dict[str, Entry]] = [{}]
    size = 0
    for name in file_order(entries):
        if size and size + entries[name].size > _SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = entries[name]
        size += entries[name].size
    if len(shards) == 1:
        return {"model.safetensors": shards[0]}
    return {f"model-{i:05d}-of-{len(shards):05d}.safetensors": part for i, part in enumerate(shards, start=1)}
