"""A key-value cache that holds each prompt once for all its responses, and the attention that reads it.

A step computes one token of every response. Its attention has two parts, as in Hydragen (arXiv 2402.05099): the queries
of all responses to a prompt against the one copy of the prompt's keys, a dense product, and each query against the keys
of its own response. The softmax is over the scores of both parts, so the result is that of plain attention.

All layers but attention run on one sequence: the prompts one after the other, or one token of each response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from dphrl.model.sharing import check_plain, places, sharing_obstacle

_NAME = "shared_cache"
# Positions of a response that room is first made for; then twice as many each time.
_FIRST_ROOM = 32


@dataclass
class _Layer:
    """Keys and values of one layer: (prompts, key heads, longest prompt, width), (responses, key heads, room, width).

    Where a prompt or response ends earlier, there are finite numbers, which the mask hides.
    """

    prompt_keys: Tensor
    prompt_values: Tensor
    keys: Tensor
    values: Tensor


class SharedCache:
    """Prompts and the responses to them, which come and go.

    Args:
        prompt_lengths: (prompts,), int64.
        owner: (responses,), int64: the prompt of each response; each prompt has one.
        longest: most tokens that a response will have in the cache.
    """

    def __init__(self, prompt_lengths: Tensor, owner: Tensor, longest: int) -> None:
        self._layers: dict[int, _Layer] = {}
        self._prompt_lengths = prompt_lengths
        self._owner = owner
        self._lengths = torch.zeros_like(owner)
        self._cached = 0
        self._longest = longest
        self._arrange()

    @classmethod
    def prefill(
        cls, model: PreTrainedModel, prompts: Sequence[Sequence[int]], owner: Sequence[int], longest: int
    ) -> tuple[SharedCache, Tensor]:
        """The cache of these prompts, and the logits (prompts, vocabulary), float32, of what follows each.

        Args:
            model: one that `install_shared_cache` prepared.
            prompts: token ids, none of them empty.
            owner: the prompt of each response.
            longest: most tokens that a response will have in the cache.
        """
        device = model.device
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        cache = cls(lengths, torch.tensor(owner, device=device), longest)
        tokens = torch.tensor([token for prompt in prompts for token in prompt], device=device)
        within = torch.arange(cache._filled.shape[1], device=device).expand_as(cache._filled)
        positions = within[cache._filled]
        return cache, cache._run(model, tokens, positions, cache._filled[:, None, None], lengths.cumsum(0) - 1)

    @property
    def prompts(self) -> int:
        """How many prompts it holds."""
        return len(self._prompt_lengths)

    def step(self, model: PreTrainedModel, tokens: Tensor) -> Tensor:
        """Take one more token of each response.

        Args:
            tokens: (responses,), int64.

        Returns:
            Logits (responses, vocabulary), float32, of what follows them.
        """
        self._make_room()
        within = torch.arange(self._cached + 1, device=tokens.device)
        own = (within <= self._lengths[:, None])[self._slots]
        seen = torch.cat([self._filled[:, None].expand(-1, own.shape[1], -1), own], dim=-1)
        mask = torch.zeros(seen.shape, device=tokens.device).masked_fill_(~seen, -torch.inf)
        logits = self._run(model, tokens, self._prompt_lengths[self._owner] + self._lengths, mask[:, None])
        # Responses that are over but still here stay at the last place.
        self._lengths = (self._lengths + 1).clamp(max=self._longest - 1)
        self._cached = min(self._cached + 1, self._longest - 1)
        return logits

    def keep(self, responses: Sequence[int], longest: int) -> None:
        """Keep these responses, at least one, in this order, and the prompts that they belong to.

        Args:
            responses: their indices.
            longest: most tokens that one of them will have in the cache.
        """
        index = torch.tensor(responses, device=self._owner.device)
        prompts, self._owner = self._owner[index].unique(return_inverse=True)
        self._prompt_lengths, self._lengths = self._prompt_lengths[prompts], self._lengths[index]
        self._cached = int(self._lengths.max())
        self._longest = longest
        longest_prompt = int(self._prompt_lengths.max())
        for layer in self._layers.values():
            layer.keys, layer.values = layer.keys[index, :, :longest], layer.values[index, :, :longest]
            layer.prompt_keys = layer.prompt_keys[prompts, :, :longest_prompt]
            layer.prompt_values = layer.prompt_values[prompts, :, :longest_prompt]
        self._arrange()

    def join(self, other: SharedCache) -> None:
        """Take the prompts and responses of `other` behind its own."""
        self._owner = torch.cat([self._owner, other._owner + self.prompts])
        self._prompt_lengths = torch.cat([self._prompt_lengths, other._prompt_lengths])
        self._lengths = torch.cat([self._lengths, other._lengths])
        self._cached = max(self._cached, other._cached)
        self._longest = max(self._longest, other._longest)
        for index, theirs in other._layers.items():
            ours = self._layers[index]
            ours.keys, ours.values = _stacked(ours.keys, theirs.keys), _stacked(ours.values, theirs.values)
            ours.prompt_keys = _stacked(ours.prompt_keys, theirs.prompt_keys)
            ours.prompt_values = _stacked(ours.prompt_values, theirs.prompt_values)
        self._arrange()

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Any
    ) -> Tensor:
        """Attention of the sequence's tokens, whose keys and values it takes in.

        Args:
            module: the attention layer.
            query: (1, heads, tokens, width).
            key: (1, key heads, tokens, width).
            value: (1, key heads, tokens, width of values).
            mask: of a step, (prompts, 1, most responses to one, longest prompt + most cached tokens), to be added.
            options: what transformers tells an attention function.

        Returns:
            (1, tokens, heads, width of values).
        """
        query, key, value = (states[0].transpose(0, 1) for states in (query, key, value))
        layer = self._layers.get(int(module.layer_idx))  # type: ignore[arg-type]
        if layer is None:
            return self._attend_in_prompts(module, query, key, value, **options)[None]
        return self._attend_in_step(layer, query, key, value, mask, options.get("scaling"))[None]

    def _attend_in_prompts(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor:
        """Causal attention within each prompt; states are (tokens, heads, width)."""
        cut, _ = places(self._prompt_lengths, 0)
        query, key, value = (states[cut].transpose(1, 2).contiguous() for states in (query, key, value))
        room = (len(self._owner), key.shape[1], 0)
        self._layers[int(module.layer_idx)] = _Layer(  # type: ignore[arg-type]
            key, value, key.new_zeros(*room, key.shape[-1]), value.new_zeros(*room, value.shape[-1])
        )
        # Prompts are padded behind their end, so causal attention sees no padding.
        attended, _ = sdpa_attention_forward(module, query, key, value, None, **options)
        found: Tensor = attended[self._filled]
        return found

    def _attend_in_step(
        self, layer: _Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None
    ) -> Tensor:
        """Attention of one token of each response; states are (responses, heads, width)."""
        rows = torch.arange(len(key), device=key.device)
        layer.keys[rows, :, self._lengths] = key
        layer.values[rows, :, self._lengths] = value
        keys, values = (states[:, :, : self._cached + 1] for states in (layer.keys, layer.values))
        # The query heads that share a key head are rows of one product.
        query = query.unflatten(1, (key.shape[1], -1))
        in_prompt = self._by_prompt(query) @ layer.prompt_keys.mT
        in_response = self._by_prompt(query @ keys.mT)
        scores = torch.cat([in_prompt, in_response], dim=-1).float().unflatten(2, (mask.shape[2], -1))
        scaling = key.shape[-1] ** -0.5 if scaling is None else scaling
        weights = torch.add(mask[:, :, :, None], scores, alpha=scaling).softmax(-1).to(value.dtype).flatten(2, 3)
        of_prompt, of_response = weights.split([in_prompt.shape[-1], in_response.shape[-1]], dim=-1)
        found = self._by_response(of_prompt @ layer.prompt_values) + self._by_response(of_response) @ values
        return found.flatten(1, 2)

    def _by_prompt(self, states: Tensor) -> Tensor:
        """From (responses, key heads, group, n) to (prompts, key heads, most responses to one * group, n)."""
        return states[self._slots].transpose(1, 2).flatten(2, 3)

    def _by_response(self, states: Tensor) -> Tensor:
        """The way back from `_by_prompt`."""
        slots = self._slots.shape[1]
        return states.unflatten(2, (slots, -1)).transpose(1, 2).flatten(0, 1)[self._place]

    def _arrange(self) -> None:
        """Give each response a slot in (prompts, most responses to one); slots that are left over take the first."""
        counts = self._owner.bincount(minlength=self.prompts)
        self._slots, filled = places(counts, 0)
        order = self._owner.argsort(stable=True)
        self._slots = order[self._slots]
        self._place = torch.empty_like(order)
        self._place[order] = filled.flatten().nonzero()[:, 0]
        _, self._filled = places(self._prompt_lengths, 0)

    def _make_room(self) -> None:
        for layer in self._layers.values():
            room = layer.keys.shape[2]
            if room == self._cached:
                wider = min(max(2 * room, _FIRST_ROOM), self._longest)
                layer.keys, layer.values = _widened(layer.keys, wider), _widened(layer.values, wider)

    def _run(
        self, model: PreTrainedModel, tokens: Tensor, positions: Tensor, mask: Tensor, ends: Tensor | int = 0
    ) -> Tensor:
        """Logits behind the tokens at `ends`, all by default. A mask of four dimensions reaches `attend` as it is."""
        output = model(
            input_ids=tokens[None],
            position_ids=positions[None],
            attention_mask=mask,
            use_cache=False,
            logits_to_keep=ends,
            shared_cache=self,
        )
        logits: Tensor = output.logits[0].float()
        return logits


def install_shared_cache(model: PreTrainedModel) -> None:
    """Let the model take a `shared_cache` in its forward pass; without one it runs SDPA.

    Raises:
        ValueError: the model has another attention than the plain causal one.
    """
    if obstacle := sharing_obstacle(model):
        raise ValueError(f"the transformers engine can't draw from this model: {obstacle}; set engine.name: vllm")
    model.set_attn_implementation(_NAME)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    shared_cache: SharedCache | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention as transformers calls it: states are (rows, heads, tokens, width), one row with a cache."""
    if shared_cache is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    check_plain(module, options)
    return shared_cache.attend(module, query, key, value, attention_mask, **options), None  # type: ignore[arg-type]


def _stacked(ours: Tensor, theirs: Tensor) -> Tensor:
    positions = max(ours.shape[2], theirs.shape[2])
    return torch.cat([_widened(states, positions) for states in (ours, theirs)])


def _widened(states: Tensor, positions: int) -> Tensor:
    return pad(states, (0, 0, 0, positions - states.shape[2]))


AttentionInterface.register(_NAME, _attention)
# Without one of its own, transformers would drop the masks of this model elsewhere.
AttentionMaskInterface.register(_NAME, sdpa_mask)
