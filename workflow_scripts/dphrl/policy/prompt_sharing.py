"""Prompt sharing: one sequence that holds each prompt once, and the attention that keeps its responses apart.

All layers but attention treat each token separately, so they run on the sequence as it is: no prompt twice, no padding.
Attention runs on padded parts of it: the prompts, and the responses over the keys of their prompt and their own.
Each token thus sees the same keys as in a separate row, and no mask grows with the square of the whole sequence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from dphrl.policy.packing import PackedLayout, packed_attention

# With this attention a model takes a `layout` in its forward pass; without one it runs SDPA.
ATTENTION = "prompt_sharing"
# `scaled_dot_product_attention` runs these on a CPU, but does not return the log-sum-exp.
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True)
class PromptLayout:
    """Indices of prompts and responses in a sequence: first the prompts, then the responses to each. All are int64.

    Attributes:
        position_ids: (1, tokens): positions of the tokens in their rows, for the model.
        prompts: (prompts, longest prompt): indices in the sequence, padded with 0.
        responses: (responses, longest response): indices in the sequence, padded with 0.
        grouped: (prompts, most response tokens of one): the responses to each prompt together, padded with 0.
        prompt_of: (responses,): the prompt of each response.
        valid: (prompts, 1, 1, longest prompt), bool: which of `prompts` are not padding.
        in_prompts: (prompt tokens,): the index of each in the flattened `prompts`.
        in_responses: (response tokens,): the index of each in the flattened `responses`.
        in_grouped: (response tokens,): the index of each in the flattened `grouped`.
    """

    position_ids: Tensor
    prompts: Tensor
    responses: Tensor
    grouped: Tensor
    prompt_of: Tensor
    valid: Tensor
    in_prompts: Tensor
    in_responses: Tensor
    in_grouped: Tensor

    @cached_property
    def prompt_mask(self) -> Tensor | None:
        """`valid`, or None if there is no padding."""
        return None if bool(self.valid.all()) else self.valid

    @cached_property
    def visible(self) -> Tensor:
        """Bool (responses, 1, longest response, longest prompt + longest response): which keys each sees."""
        longest = self.responses.shape[1]
        own = torch.ones(longest, longest, dtype=torch.bool, device=self.valid.device).tril()
        of_prompt = self.valid[self.prompt_of].expand(-1, -1, longest, -1)
        return torch.cat([of_prompt, own.expand(len(self.prompt_of), 1, -1, -1)], dim=-1)


def prompt_layout(position_ids: Tensor, prompts: Sequence[int], responses: Sequence[Sequence[int]]) -> PromptLayout:
    """The layout of a sequence, on the device of `position_ids`, from its numbers of tokens.

    Args:
        position_ids: (1, tokens), int64.
        prompts: of each prompt.
        responses: of the responses to each prompt.
    """
    start = sum(prompts)
    lengths = [length for group in responses for length in group]
    of_prompts, of_responses, of_groups = (
        torch.tensor(numbers, device=position_ids.device) for numbers in (prompts, lengths, [*map(sum, responses)])
    )
    (prompt_places, valid), (response_places, in_responses), (grouped, in_grouped) = (
        places(of_prompts, 0),
        places(of_responses, start),
        places(of_groups, start),
    )
    prompt_of = torch.tensor([i for i, group in enumerate(responses) for _ in group], device=position_ids.device)
    return PromptLayout(
        position_ids=position_ids,
        prompts=prompt_places,
        responses=response_places,
        grouped=grouped,
        prompt_of=prompt_of,
        valid=valid[:, None, None],
        in_prompts=valid.flatten().nonzero()[:, 0],
        in_responses=in_responses.flatten().nonzero()[:, 0],
        in_grouped=in_grouped.flatten().nonzero()[:, 0],
    )


def places(lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Indices of consecutive runs of tokens from `start` on in a sequence, padded with 0, and which are not padding.

    Args:
        lengths: (runs,), int64, at least one run.

    Returns:
        (runs, longest), int64, and (runs, longest), bool.
    """
    within = torch.arange(int(lengths.max()), device=lengths.device)
    valid = within < lengths[:, None]
    return ((start + lengths.cumsum(0) - lengths)[:, None] + within) * valid, valid


def sharing_obstacle(model: PreTrainedModel) -> str | None:
    """Why prompts cannot be shared in this model; None if they can."""
    config = model.config.get_text_config()
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager", ATTENTION):
        return f"attention implementation {attention!r} takes no mask of this kind, 'sdpa' and 'eager' do"
    if not (model._supports_attention_backend and model._supports_sdpa) or model._is_stateful:
        return f"{type(model).__name__} does not compute all its attention by PyTorch's SDPA"
    for name in ("sliding_window", "attn_logit_softcapping"):
        if getattr(config, name, None) is not None:
            return f"config attribute {name} = {getattr(config, name)}, only plain causal attention can be shared"
    other = sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention"})
    return f"config attribute layer_types has {other}, only plain causal attention can be shared" if other else None


def check_plain(module: nn.Module, options: Mapping[str, Any]) -> None:
    """Refuse options of transformers beyond plain causal attention.

    Raises:
        ValueError: the layer's options have a window, a cap or sinks.
    """
    for name in ("sliding_window", "softcap", "s_aux"):
        if options.get(name) is not None:
            raise ValueError(f"{type(module).__name__} asks for attention with {name} = {options[name]}: not supported")


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    layout: PromptLayout | PackedLayout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention as transformers calls it: states are (rows, heads, tokens, width); one row with a layout."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    check_plain(module, options)
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
    if isinstance(layout, PackedLayout):
        return packed_attention(queries, keys, values, layout, options.get("scaling"))[None], None
    prompt = [_take(states, layout.prompts) for states in (queries, keys, values)]
    of_prompts, _ = sdpa_attention_forward(module, *_heads_first(*prompt), None, **options)
    response = [_take(states, layout.responses) for states in (queries, keys, values)]
    # On other devices no attention of PyTorch returns its log-sum-exp for all types.
    attend = _over_parts if query.device.type == "cpu" and key.shape[-1] == value.shape[-1] else _over_copies
    of_responses = attend(module, queries, prompt, response, layout, **options)
    return torch.cat([_take(of_prompts.flatten(0, 1), layout.in_prompts), of_responses])[None], None


def _over_parts(
    module: nn.Module,
    queries: Tensor,
    prompt: Sequence[Tensor],
    response: Sequence[Tensor],
    layout: PromptLayout,
    scaling: float | None = None,
    **_: Any,
) -> Tensor:
    """Attention of the responses over the keys of their prompt, without a copy, and over their own."""
    groups = queries.shape[1] // prompt[1].shape[2]
    over_prompt, over_own = (
        [part[0], *(repeat_kv(states, groups) for states in part[1:])]
        for part in (_heads_first(_take(queries, layout.grouped), *prompt[1:]), _heads_first(*response))
    )
    return merged_attention(over_prompt, over_own, layout.in_grouped, layout.in_responses, layout.prompt_mask, scaling)


def _over_copies(
    module: nn.Module,
    queries: Tensor,
    prompt: Sequence[Tensor],
    response: Sequence[Tensor],
    layout: PromptLayout,
    **options: Any,
) -> Tensor:
    """Attention of the responses over a copy of their prompt's keys, followed by their own."""
    keys, values = (
        torch.cat([_take(of_prompt, layout.prompt_of), own], dim=1)
        for of_prompt, own in zip(prompt[1:], response[1:], strict=True)
    )
    attended, _ = sdpa_attention_forward(module, *_heads_first(response[0], keys, values), layout.visible, **options)
    return _take(attended.flatten(0, 1), layout.in_responses)


def _take(states: Tensor, index: Tensor) -> Tensor:
    """states[index] by an embedding, whose gradient is summed in a fixed order and fast."""
    return embedding(index, states.flatten(1)).unflatten(-1, states.shape[1:])


def _heads_first(*states: Tensor) -> list[Tensor]:
    return [part.transpose(1, 2) for part in states]


def merged_attention(
    full: Sequence[Tensor],
    causal: Sequence[Tensor],
    in_full: Tensor,
    in_causal: Tensor,
    seen: Tensor | None,
    scaling: float | None,
) -> Tensor:
    """Attention of tokens over keys in two separate parts, without copying them together, on a CPU.

    Each part is computed separately, together with its log-sum-exp. These give the weights of the two results, as in
    ring attention (arXiv 2310.01889): up to rounding the softmax over all keys. The backward pass of each part is given
    the result and the log-sum-exp of both, and so is exact too.

    Args:
        full: queries, keys and values of the part in which each query sees all keys, (rows, heads, length, width).
        causal: the same for the part in which a query sees the keys up to its own, with queries of the same tokens.
        in_full: (tokens,), int64: index of each token among the flattened queries of `full`.
        in_causal: (tokens,), int64: the same in `causal`.
        seen: bool, broadcast to (rows, heads, queries, keys): which keys of `full` are not padding; None: all.
        scaling: of the scores; None: one over the root of the width.

    Returns:
        (tokens, heads, width).
    """
    added = None if seen is None else full[0].new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
    return _Merged.apply(*full, *causal, in_full, in_causal, added, scaling)


class _Merged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        in_full, in_causal, mask, scaling = arguments[6:]
        of_full, sums_of_full = _flash(*arguments[:3], attn_mask=mask, scale=scaling)
        of_causal, sums_of_causal = _flash(*arguments[3:6], is_causal=True, scale=scaling)
        sums_full, sums_causal = _flat(sums_of_full)[in_full], _flat(sums_of_causal)[in_causal]
        sums = torch.logaddexp(sums_full, sums_causal)
        # The sums are float32 whatever the model's type, and so is the weighted mean.
        merged = _flat(of_full)[in_full] * (sums_full - sums).exp()[..., None]
        merged += _flat(of_causal)[in_causal] * (sums_causal - sums).exp()[..., None]
        merged = merged.to(of_full.dtype)
        ctx.save_for_backward(*arguments[:9], merged, sums)
        ctx.scaling = scaling
        return merged

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *states, in_full, in_causal, mask, merged, sums = ctx.saved_tensors
        gradients: list[Tensor] = []
        for part, places, is_causal in ((states[:3], in_full, False), (states[3:], in_causal, True)):
            gradients += _flash_backward(
                _unflat(grad, part[0], places, 0.0),
                *part,
                _unflat(merged, part[0], places, 0.0),
                _unflat(sums, part[0], places, torch.inf),  # So padding has weight 0.
                0.0,
                is_causal,
                attn_mask=None if is_causal else mask,
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


AttentionInterface.register(ATTENTION, _attention)
# Without a registered mask function transformers would drop this model's padding masks, in generation for one.
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
