"""Packing: rows end to end in one sequence, each prompt that several rows have held once, and attention by its bounds.

The sequence is cut into runs: the prompts that several rows share, then all other rows, prompt and response together,
then the responses to the shared prompts. PyTorch's flash attention takes the bounds of the runs, so nothing is padded,
masked or copied, and fewer heads of keys than of queries stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

# The operator below `torch.nn.attention.varlen`. That function changes its arguments with every release of PyTorch, and
# its gradient leaves out the log-sum-exps, which the two parts of an attention are merged by.
_FLASH = "aten::_flash_attention_forward"
_flash = torch.ops.aten._flash_attention_forward
_flash_backward = torch.ops.aten._flash_attention_backward


@dataclass(frozen=True)
class Runs:
    """Runs of tokens, end to end.

    Attributes:
        bounds: (runs + 1,), int32: index of the first token of each, and the number of tokens.
        longest: tokens of the longest run.
        tokens: of all runs.
    """

    bounds: Tensor
    longest: int
    tokens: int


@dataclass(frozen=True)
class PackedLayout:
    """Where the runs of a packed sequence are.

    Attributes:
        position_ids: (1, tokens), int64: positions of the tokens in their rows, for the model.
        runs: all runs; a token sees those before it in its run.
        shared: the shared prompts, which begin the sequence, and the responses to each as one run, which end it; None
            if no prompt is shared.
    """

    position_ids: Tensor
    runs: Runs
    shared: tuple[Runs, Runs] | None


def packed_layout(
    position_ids: Tensor, prompts: Sequence[int], rows: Sequence[int], responses: Sequence[Sequence[int]]
) -> PackedLayout:
    """The layout of a sequence, on the device of `position_ids`, from its numbers of tokens.

    Args:
        position_ids: (1, tokens), int64.
        prompts: of each shared prompt.
        rows: of each other row.
        responses: of the responses to each shared prompt.
    """
    device = position_ids.device
    of_responses = [length for group in responses for length in group]
    shared = (_runs(prompts, device), _runs([sum(group) for group in responses], device)) if prompts else None
    return PackedLayout(position_ids, _runs([*prompts, *rows, *of_responses], device), shared)


def _runs(lengths: Sequence[int], device: torch.device) -> Runs:
    bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    return Runs(bounds, max(lengths), sum(lengths))


def packing_obstacle(model: PreTrainedModel) -> str | None:
    """Why this model, where it is now, cannot take packed rows; None if it can."""
    device, config = model.device, model.config.get_text_config()
    if not torch._C._dispatch_has_kernel_for_dispatch_key(_FLASH, torch._C._dispatch_key_for_device(device.type)):
        return f"PyTorch {torch.__version__} has no flash attention on {device.type!r}"
    if device.type == "cuda":
        # ROCm's flash attention returns the log-sum-exp in another shape.
        if torch.version.hip or not torch.backends.cuda.is_flash_attention_available():
            return f"PyTorch {torch.__version__} was built without NVIDIA's flash attention"
        if torch.cuda.get_device_capability(device) < (8, 0):
            return f"flash attention needs compute capability 8.0, {torch.cuda.get_device_name(device)} has less"
        if model.dtype not in (torch.bfloat16, torch.float16):
            return f"flash attention takes bfloat16 and float16, the model is in {str(model.dtype)[6:]}"
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if width % 8 or width > 256 or getattr(config, "v_head_dim", None) not in (None, width):
        return "flash attention takes heads of at most 256, in steps of 8, the same width for keys and values"
    return None


def packed_attention(query: Tensor, key: Tensor, value: Tensor, layout: PackedLayout, scaling: float | None) -> Tensor:
    """Causal attention within each row of a packed sequence.

    Args:
        query: (tokens, heads, width).
        key: (tokens, heads of keys, width), as `value`.
        scaling: of the scores; None: one over the root of the width.

    Returns:
        (tokens, heads, width).
    """
    return _Packed.apply(query, key, value, layout, scaling)


class _Packed(torch.autograd.Function):
    """The runs, and the responses over their shared prompts, merged by their log-sum-exps as in `merged_attention`."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, layout: PackedLayout, scaling: float | None
    ) -> Tensor:
        own = _bounds(layout.runs, layout.runs, causal=True)
        # The sums are (heads, tokens), float32 whatever the model's type, and so is the weighted mean.
        attended, sums, *_ = _flash(query, key, value, *own, False, scale=scaling)
        if layout.shared is not None:
            prompts, responses = layout.shared
            start, end, over = -responses.tokens, prompts.tokens, _bounds(responses, prompts, causal=False)
            more, more_sums, *_ = _flash(query[start:], key[:end], value[:end], *over, False, scale=scaling)
            whole = torch.logaddexp(sums[:, start:], more_sums)
            mean = attended[start:] * _weight(sums[:, start:], whole)
            mean += more * _weight(more_sums, whole)
            attended[start:], sums[:, start:] = mean, whole
        ctx.save_for_backward(query, key, value, attended, sums)
        ctx.layout, ctx.scaling = layout, scaling
        return attended

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attended, sums = ctx.saved_tensors
        # The state of random numbers: only dropout uses it.
        unused = [torch.empty(0, device=grad.device)] * 2
        own = _bounds(ctx.layout.runs, ctx.layout.runs, causal=True)
        # Each part is given the result and the log-sum-exps of both, so the gradients add up to the whole.
        gradients = _flash_backward(grad, query, key, value, attended, sums, *own, *unused, scale=ctx.scaling)
        if ctx.layout.shared is not None:
            prompts, responses = ctx.layout.shared
            start, end, over = -responses.tokens, prompts.tokens, _bounds(responses, prompts, causal=False)
            part = query[start:], key[:end], value[:end], attended[start:], sums[:, start:].contiguous()
            more = _flash_backward(grad[start:], *part, *over, *unused, scale=ctx.scaling)
            gradients[0][start:] += more[0]
            gradients[1][:end] += more[1]
            gradients[2][:end] += more[2]
        return *gradients, None, None


def _bounds(queries: Runs, keys: Runs, causal: bool) -> tuple[Tensor, Tensor, int, int, float, bool]:
    """The arguments of both operators after the states: the runs, no dropout, and whether the future is hidden."""
    return queries.bounds, keys.bounds, queries.longest, keys.longest, 0.0, causal


def _weight(part: Tensor, whole: Tensor) -> Tensor:
    return (part - whole).exp().mT[..., None]
