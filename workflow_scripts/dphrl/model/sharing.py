"""Prompt sharing: one sequence that holds each prompt once, and the attention that keeps its responses apart.

All layers but attention treat each token for itself, so they run on the sequence as it is: no prompt twice, no padding.
Attention runs on two padded cuts of it: the prompts, and the responses with their own prompt's keys before their own.
Each token thus sees what it would see in a row of its own, and no mask grows with the square of the whole sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "prompt_sharing"
_NOT_PLAIN = ("sliding_window", "softcap", "s_aux")


@dataclass(frozen=True)
class PromptLayout:
    """Where the prompts and responses lie in a sequence: first the prompts, then the responses.

    Attributes:
        position_ids: (1, tokens), int64: positions of the tokens in their own rows.
        prompts: (prompts, longest prompt), int64: places in the sequence; padded with 0.
        responses: (responses, longest response), int64: places in the sequence; padded with 0.
        owner: (responses,), int64: the prompt of each response.
        visible: (responses, 1, longest response, longest prompt + longest response), bool: the attention mask.
        restore: (tokens,), int64: place of each token in the two padded cuts, laid flat one after the other.
    """

    position_ids: Tensor
    prompts: Tensor
    responses: Tensor
    owner: Tensor
    visible: Tensor
    restore: Tensor


def prompt_layout(
    prompt_lengths: Sequence[int], response_lengths: Sequence[int], owner: Sequence[int], device: torch.device | str
) -> PromptLayout:
    """The layout of prompts and responses of these lengths; response i belongs to prompt `owner[i]`."""
    prompts, prompt_filled = places(torch.tensor(prompt_lengths, device=device), 0)
    responses, filled = places(torch.tensor(response_lengths, device=device), sum(prompt_lengths))
    owners = torch.tensor(owner, device=device)
    within_prompt, within_response = (torch.arange(cut.shape[1], device=device) for cut in (prompts, responses))
    positions = torch.tensor(prompt_lengths, device=device)[owners, None] + within_response
    longest = responses.shape[1]
    own = torch.ones(longest, longest, dtype=torch.bool, device=device).tril()
    return PromptLayout(
        position_ids=torch.cat([within_prompt.expand_as(prompts)[prompt_filled], positions[filled]])[None],
        prompts=prompts,
        responses=responses,
        owner=owners,
        visible=torch.cat(
            [prompt_filled[owners, None].expand(-1, longest, -1), own.expand(len(owners), -1, -1)], dim=-1
        )[:, None],
        restore=torch.cat([prompt_filled.flatten(), filled.flatten()]).nonzero()[:, 0],
    )


def places(lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Where runs that follow each other from `start` on lie in a sequence, padded with 0, and which are no padding.

    Args:
        lengths: (runs,), int64, at least one run.

    Returns:
        (runs, longest), int64, and (runs, longest), bool.
    """
    within = torch.arange(int(lengths.max()), device=lengths.device)
    filled = within < lengths[:, None]
    return ((start + lengths.cumsum(0) - lengths)[:, None] + within) * filled, filled


def sharing_obstacle(model: PreTrainedModel) -> str | None:
    """Why prompts can't be shared in this model; None if they can."""
    config = model.config.get_text_config()
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager", _NAME):
        return f"attention implementation {attention!r} takes no mask of this kind, 'sdpa' and 'eager' do"
    if not (model._supports_attention_backend and model._supports_sdpa) or model._is_stateful:
        return f"{type(model).__name__} does not compute all its attention by PyTorch's SDPA"
    for name in ("sliding_window", "attn_logit_softcapping"):
        if getattr(config, name, None) is not None:
            return f"config attribute {name} = {getattr(config, name)}, only plain causal attention can be shared"
    other = sorted({*(getattr(config, "layer_types", None) or ())} - {"full_attention"})
    return f"config attribute layer_types has {other}, only plain causal attention can be shared" if other else None


def check_plain(module: nn.Module, options: Mapping[str, Any]) -> None:
    """Refuse what transformers asks of an attention function beyond plain causal attention.

    Raises:
        ValueError: the layer's options have a window, a cap or sinks.
    """
    for name in _NOT_PLAIN:
        if options.get(name) is not None:
            raise ValueError(f"{type(module).__name__} asks for attention with {name} = {options[name]}: not supported")


def install_sharing(model: PreTrainedModel) -> None:
    """Let the model take a `layout` in its forward pass, with `visible` as its attention mask; else it runs SDPA."""
    model.set_attn_implementation(_NAME)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    layout: PromptLayout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention as transformers calls it: states are (rows, heads, tokens, width), one row with a layout."""
    if layout is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    check_plain(module, options)
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
    prompt_keys, prompt_values = _take(keys, layout.prompts), _take(values, layout.prompts)
    of_prompts, _ = sdpa_attention_forward(
        module, *_heads_first(_take(queries, layout.prompts), prompt_keys, prompt_values), None, **options
    )
    of_responses, _ = sdpa_attention_forward(
        module,
        *_heads_first(
            _take(queries, layout.responses),
            torch.cat([_take(prompt_keys, layout.owner), _take(keys, layout.responses)], dim=1),
            torch.cat([_take(prompt_values, layout.owner), _take(values, layout.responses)], dim=1),
        ),
        attention_mask,
        **options,
    )
    return _take(torch.cat([of_prompts.flatten(0, 1), of_responses.flatten(0, 1)]), layout.restore)[None], None


def _take(states: Tensor, index: Tensor) -> Tensor:
    """states[index] whose gradient adds up in a fixed order, and fast: the embedding's."""
    return embedding(index, states.flatten(1)).unflatten(-1, states.shape[1:])


def _heads_first(*states: Tensor) -> list[Tensor]:
    return [part.transpose(1, 2) for part in states]


AttentionInterface.register(_NAME, _attention)
# Without one of its own, transformers would drop the padding masks of this model elsewhere, as in generation.
AttentionMaskInterface.register(_NAME, sdpa_mask)
