"""Attention over keys in two separate parts, without copying them together.

Each part is computed separately, together with its log-sum-exp. These give the weights of the two results, as in ring
attention (arXiv 2310.01889): up to rounding the softmax over all keys. The backward pass of each part is given the
result and the log-sum-exp of both, and so is exact too.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

# `scaled_dot_product_attention` runs these on a CPU, but does not return the log-sum-exp.
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
        other: those of the part in which a query sees the keys up to its own; both have queries of the same tokens.
        in_one: (tokens,), int64: index of each token among the flattened queries of `one`.
        in_other: (tokens,), int64: the same in `other`.
        seen: bool, broadcast to (rows, heads, queries, keys): which keys of `one` are not padding; None: all.
        scaling: of the scores; None: one over the root of the width.

    Returns:
        (tokens, heads, width).
    """
    added = None if seen is None else one[0].new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
    return _Merged.apply(*one, *other, in_one, in_other, added, scaling)


class _Merged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        in_one, in_other, mask, scaling = arguments[6:]
        of_one, sums_of_one = _flash(*arguments[:3], attn_mask=mask, scale=scaling)
        of_other, sums_of_other = _flash(*arguments[3:6], is_causal=True, scale=scaling)
        one, other = _flat(sums_of_one)[in_one], _flat(sums_of_other)[in_other]
        sums = torch.logaddexp(one, other)
        # The sums are float32 whatever the model's type, and so is the weighted mean.
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
                _unflat(grad, part[0], places, 0.0),
                *part,
                _unflat(found, part[0], places, 0.0),
                _unflat(sums, part[0], places, torch.inf),  # So padding has weight 0.
                0.0,
                causal,
                attn_mask=None if causal else mask,
                scale=ctx.scaling,
            )
        return (*gradients, None, None, None, None)


def _flat(states: Tensor) -> Tensor:
    """From (rows, heads, queries, ...) to (rows * queries, heads, ...)."""
    return states.transpose(1, 2).flatten(0, 1)


def _unflat(of_tokens: Tensor, queries: Tensor, places: Tensor, padding: float) -> Tensor:
    """The inverse of `_flat`."""
    rows, _, length, _ = queries.shape
    cut = of_tokens.new_full((rows * length, *of_tokens.shape[1:]), padding)
    cut[places] = of_tokens
    return cut.unflatten(0, (rows, length)).transpose(1, 2)
