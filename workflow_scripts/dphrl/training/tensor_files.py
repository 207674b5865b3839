"""Weights as safetensors files: a few megabytes of them at a time are copied from the GPU."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from dphrl.artifacts.tensors import Entry, file_order, write_tensors
from dphrl.training.adapters import Gather, merged_weights, plain_parameters

_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16"}
_PIECE = 1 << 22
_SHARD_BYTES = 4 << 30


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
