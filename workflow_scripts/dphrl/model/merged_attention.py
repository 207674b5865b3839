"""Attention whose keys lie in two places, with nothing copied together.

Each part is computed by itself, together with the logarithm of the sum of its exponentials. By those the results are
weighed, as in ring attention (arXiv 2310.01889): the softmax over all keys, to the rounding. The backward pass of a
part takes the result and the sum of both, and so is exact too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

# What `scaled_dot_product_attention` runs on a CPU, which does not pass the sums on.
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def merged_attention(
    one: Sequence[Tensor],
    other: Sequence[Tensor],
    in_one: Tensor,
    in_other: Tensor,
    seen: Tensor | None,
    scaling: float | None,
) -> Tensor:
    """Attention of tokens over the keys of two parts, on a CPU.

    Args:
        one: queries, keys and values of the part in which each query sees all keys, (rows, heads, length, width).
        other: those of the part in which a query sees the keys up to its own; the same tokens ask in both.
        in_one: (tokens,), int64: place of each token among the queries of `one`, its rows laid flat.
        in_other: (tokens,), int64: the same in `other`.
        seen: bool, broadcast to (rows, heads, queries, keys): which keys of `one` are none of padding; None: all.
        scaling: of the scores; None: one over the root of the width.

    Returns:
        (tokens, heads, width).
    """
    added = None if seen is None else one[0].new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
    found: Tensor = _Merged.apply(*one, *other, in_one, in_other, added, scaling)
    return found


class _Merged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        in_one, in_other, mask, scaling = arguments[6:]
        of_one, sums_of_one = _flash(*arguments[:3], attn_mask=mask, scale=scaling)
        of_other, sums_of_other = _flash(*arguments[3:6], is_causal=True, scale=scaling)
        one, other = _flat(sums_of_one)[in_one], _flat(sums_of_other)[in_other]
        sums = torch.logaddexp(one, other)
        # The sums are float32 whatever the model's type, and so the weighing.
        found = _flat(of_one)[in_one] * (one - sums).exp()[..., None]
        found += _flat(of_other)[in_other] * (other - sums).exp()[..., None]
        found = found.to(of_one.dtype)
        ctx.save_for_backward(*arguments[:9], found, sums)
        ctx.scaling = scaling
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *states, in_one, in_other, mask, found, sums = ctx.saved_tensors
        gradients: list[Tensor] = []
        for part, places, causal in ((states[:3], in_one, False), (states[3:], in_other, True)):
            gradients += _flash_backward(
                _cut(grad, part[0], places, 0.0),
                *part,
                _cut(found, part[0], places, 0.0),
                _cut(sums, part[0], places, torch.inf),  # Padding then weighs nothing.
                0.0,
                causal,
                attn_mask=None if causal else mask,
                scale=ctx.scaling,
            )
        return (*gradients, None, None, None, None)


def _flat(states: Tensor) -> Tensor:
    """From (rows, heads, queries, ...) to (rows * queries, heads, ...)."""
    return states.transpose(1, 2).flatten(0, 1)


def _cut(of_tokens: Tensor, queries: Tensor, places: Tensor, padding: float) -> Tensor:
    """The way back from `_flat`."""
    rows, _, length, _ = queries.shape
    cut = of_tokens.new_full((rows * length, *of_tokens.shape[1:]), padding)
    cut[places] = of_tokens
    return cut.unflatten(0, (rows, length)).transpose(1, 2)
