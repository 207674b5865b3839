"""Memory of one layer and of the output head on a GPU, by fake tensors on a machine without one.

`PYTHONPATH=workflow_scripts python tests/support/layer_memory.py` prints a Markdown table. Numbers are the bytes of the
tensors that are alive, at their peak in forward and backward pass, with the layer's weights (0.4 GB) and their
gradients; of the packed form with the workspace of flash attention's backward pass too.
"""

from __future__ import annotations

import dataclasses
import math
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from dphrl.policy import logprobs, prompt_sharing
from dphrl.policy.batch import Batch, Form, MicroBatch, Row, collate, plan

BUDGET = 32_384
LLAMA_8B = LlamaConfig(
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    num_hidden_layers=1,
    vocab_size=128_256,
    attn_implementation=prompt_sharing.ATTENTION,
)


class Live(TorchDispatchMode):
    """Bytes of the storages that are alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.peak = 0
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._add(tensor)
        if func is torch.ops.aten._flash_attention_backward.default:
            self.peak = max(self.peak, self.bytes + _workspace(args[1], args[2], len(args[6]) - 1))
        return out

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._seen:
            return
        size = self._seen[storage] = storage.nbytes()
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self._remove, size)

    def _remove(self, size: int) -> None:
        self.bytes -= size


def _workspace(query: Tensor, key: Tensor, runs: int) -> int:
    """Bytes that `mha_varlen_bwd` of PyTorch 2.13 allocates and frees: float32 sums, gradients of repeated keys."""
    tokens, heads, width = query.shape
    sums = (tokens + 128 * runs) * heads * (width + 1) * 4
    return sums + (2 * key.shape[0] * heads * width * 2 if key.shape[1] != heads else 0)


def _sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tensor:
    """What PyTorch 2.13 launches on CUDA in bfloat16: flash without a mask, the memory-efficient kernel with one."""
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, is_causal, scale=scale)[0]
    bias = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), -torch.inf)
    keys = bias.shape[-1]
    bias = torch.nn.functional.pad(bias, (0, -keys % 16))[..., :keys].expand(*query.shape[:3], keys)
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, True, scale=scale)[0]


@contextmanager
def as_on_cuda() -> Iterator[None]:
    """Let the padded form take its way on CUDA."""
    functional, before = torch.nn.functional, torch.nn.functional.scaled_dot_product_attention
    over_parts = prompt_sharing._over_parts
    functional.scaled_dot_product_attention, prompt_sharing._over_parts = _sdpa, prompt_sharing._over_copies
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, prompt_sharing._over_parts = before, over_parts


def peak_of(run: Callable[[], Tensor]) -> float:
    """Most decimal GB alive during `run` and the backward pass from its sum."""
    with Live() as live:
        run().sum().backward()
    return live.peak / 1e9


def layer_peak(config: LlamaConfig, rows: Sequence[Row], shared: bool, form: Form) -> float:
    """Most decimal GB alive in one layer's forward and backward pass over the rows in bfloat16."""
    batch = collate(rows, shared=shared, form=form)
    with as_on_cuda(), FakeTensorMode() as mode:
        torch.set_default_dtype(torch.bfloat16)
        layer = LlamaDecoderLayer(config, 0)
        torch.set_default_dtype(torch.float32)
        size = *batch.input_ids.shape, config.hidden_size
        states = torch.empty(size, dtype=torch.bfloat16, requires_grad=True)
        angles = torch.empty(*size[:2], config.hidden_size // config.num_attention_heads, dtype=torch.bfloat16)
        extra = {} if batch.layout is None else {"layout": _faked(batch.layout, mode)}
        return peak_of(
            lambda: layer(states, attention_mask=None, position_embeddings=(angles, torch.empty_like(angles)), **extra)
        )


def head_peak(config: LlamaConfig, logits_per_chunk: int) -> float:
    """Most decimal GB alive, without weights, while a head in bfloat16 gives log-probs of two chunks."""
    without_layers = type(config)(**{**config.to_dict(), "num_hidden_layers": 0})
    tokens = 2 * logits_per_chunk // config.vocab_size
    before, logprobs._LOGITS_PER_CHUNK = logprobs._LOGITS_PER_CHUNK, logits_per_chunk
    with FakeTensorMode():
        torch.set_default_dtype(torch.bfloat16)
        module = logprobs.LogProbs(LlamaForCausalLM(without_layers), "padded")
        torch.set_default_dtype(torch.float32)
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        with Live() as live, torch.no_grad():
            module(Batch(ids, torch.arange(tokens), ids[0]))
    logprobs._LOGITS_PER_CHUNK = before
    return (live.peak - 2 * config.vocab_size * config.hidden_size) / 1e9


def _faked(value: Any, mode: FakeTensorMode) -> Any:
    """A layout with fake tensors."""
    if isinstance(value, Tensor):
        return mode.from_tensor(value)
    if isinstance(value, tuple):
        return tuple(_faked(part, mode) for part in value)
    if dataclasses.is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value)(**{name: _faked(part, mode) for name, part in parts.items()})
    return value


def sql_rows(prompts: Sequence[int], limited: int, responses: int = 16) -> list[Row]:
    """Responses of about 350 tokens to each prompt, the last ones of the last prompt at the limit of 4,096."""
    chance = random.Random(0)
    count = len(prompts) * responses
    lengths = [min(4096, max(20, int(chance.lognormvariate(math.log(350), 0.5)))) for _ in range(count - limited)]
    lengths += [4096] * limited
    return [Row([i // responses] * prompts[i // responses], [1] * length) for i, length in enumerate(lengths)]


SHAPES = {
    "SQL, 3 prompts x 16 responses": sql_rows([2100, 2500, 3100], 0),
    "the same, 1 response at the limit of 4,096": sql_rows([2100, 2500, 3100], 1),
    "the same, 2 responses at the limit": sql_rows([2100, 2500, 3100], 2),
    "SQL, prompts of 9,000 and 1,500, 1 at the limit": sql_rows([9000, 1500], 1),
    "mathematics, 2 prompts of 150 x 16 of 900": [Row([i // 16] * 150, [1] * 900) for i in range(32)],
    "8 prompts x 1 response, 4,000 tokens": [Row([i] * 500, [1] * 3500) for i in range(8)],
}


def worst(config: LlamaConfig, rows: Sequence[Row], cut: Sequence[MicroBatch]) -> float:
    """The largest peak of the micro-batches."""
    return max(layer_peak(config, [rows[i] for i in part.rows], part.shared, part.form) for part in cut)


if __name__ == "__main__":
    print("| rows | tokens | padded, one pass, GB | padded, by plan, GB | passes | packed, by plan, GB | passes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, rows in SHAPES.items():
        padded, packed = (plan(rows, BUDGET, "auto", form) for form in ("padded", "packed"))
        shared = padded[0].shared
        tokens = collate(rows, shared=True, form="packed").input_ids.numel()
        one = layer_peak(LLAMA_8B, rows, shared, "padded")
        peaks = [worst(LLAMA_8B, rows, cut) for cut in (padded, packed)]
        print(f"| {name} | {tokens:,} | {one:.1f} | {peaks[0]:.1f} | {len(padded)} | {peaks[1]:.1f} | {len(packed)} |")
    chunks = {"CPU": logprobs._LOGITS_PER_CHUNK, "GPU": logprobs._LOGITS_PER_CHUNK_ON_GPU}
    for device, logits in chunks.items():
        tokens = logits // LLAMA_8B.vocab_size
        print(f"\nThe head on a {device}: {tokens} tokens per product, {head_peak(LLAMA_8B, logits):.1f} GB.")
