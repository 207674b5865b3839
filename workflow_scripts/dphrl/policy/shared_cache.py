"""A key-value cache that stores each prompt once for all its responses, and the attention that reads it.

A step computes one token of every response. Its attention has two parts, as in Hydragen (arXiv 2402.05099): the queries
of all responses to a prompt against the single copy of the prompt's keys, a dense product, and each query against the
keys of the response so far. The softmax is over the scores of both parts, as in plain attention.

All layers but attention run on one sequence: the concatenated prompts, or one token of each response.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from dphrl.policy.prompt_sharing import check_plain, places, sharing_obstacle

_NAME = "shared_cache"
# Positions first allocated for the responses of a batch; doubled when they are full.
_FIRST_POSITIONS = 32


class _Capacity(NamedTuple):
    """Numbers of prompts and responses to allocate for, and the most tokens of each."""

    prompts: int = 0
    longest_prompt: int = 0
    responses: int = 0
    longest: int = 0

    @property
    def tokens(self) -> int:
        return self.prompts * self.longest_prompt + self.responses * self.longest


@dataclass
class _Layer:
    """Keys and values of one layer: (rows, key heads, positions, width), one row per prompt or response.

    Unused rows and positions hold finite numbers, which the mask hides.
    """

    prompt_keys: Tensor
    prompt_values: Tensor
    keys: Tensor
    values: Tensor


class SharedCache:
    """Keys and values of prompts and of their responses, which are added and removed in the same memory.

    Args:
        model: prepared by `install_shared_cache`.
        max_tokens: capacity in tokens that may stay allocated; more is allocated only while it is in use.

    Attributes:
        prompts: those in the cache.
    """

    def __init__(self, model: PreTrainedModel, max_tokens: int) -> None:
        self._model, self._max_tokens = model, max_tokens
        self._layers: dict[int, _Layer] = {}
        self._capacity = _Capacity()
        self._cached = 0
        self.prompts: list[tuple[int, ...]] = []
        self._owner = self._lengths = torch.zeros(0, dtype=torch.int64, device=model.device)
        # Logits behind each prompt, kept because further responses to it may be admitted later.
        self._first_logits: Tensor | None = None

    def admit(self, prompts: Sequence[tuple[int, ...]], longest: int) -> Tensor:
        """Add a response to each of these prompts, after the existing responses.

        Args:
            prompts: token ids, none of them empty; a prompt that is already in the cache is not computed again.
            longest: most tokens that any response in the cache will have.

        Returns:
            Logits (prompts, vocabulary), float32, of the token after each prompt.
        """
        before = len(self.prompts)
        row = {prompt: i for i, prompt in enumerate(dict.fromkeys([*self.prompts, *prompts]))}
        self.prompts = list(row)
        owner = self._owner.new_tensor([row[prompt] for prompt in prompts])
        self._owner = torch.cat([self._owner, owner])
        self._lengths = torch.cat([self._lengths, torch.zeros_like(owner)])
        self._assign_slots(longest)
        if len(self.prompts) > before:
            logits = self._prefill(self.prompts[before:])
            self._first_logits = logits if self._first_logits is None else torch.cat([self._first_logits, logits])
        assert self._first_logits is not None
        return self._first_logits[owner]

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to each response.

        Args:
            tokens: (responses,), int64.

        Returns:
            Logits (responses, vocabulary), float32, of the token after it.
        """
        self._allocate()
        own = torch.arange(self._cached + 1, device=tokens.device) <= self._lengths[:, None]
        visible = torch.cat([self._in_prompt[:, None].expand(-1, self._slots.shape[1], -1), own[self._slots]], dim=-1)
        mask = torch.zeros(visible.shape, device=tokens.device).masked_fill_(~visible, -torch.inf)
        positions = self._prompt_lengths[self._owner] + self._lengths
        logits = self._forward(tokens, positions, mask[:, None], self._attend_in_step)
        # Finished responses that are still in the batch keep overwriting their last position.
        self._lengths = (self._lengths + 1).clamp(max=self._longest - 1)
        self._cached = min(self._cached + 1, self._longest - 1)
        return logits

    def keep(self, responses: Sequence[int], longest: int) -> None:
        """Keep these responses, in this order, and their prompts; remove all others.

        Args:
            responses: their indices; only those whose index changes are copied (see `compacted`).
            longest: most tokens that one of them will have in the cache.
        """
        index = self._owner.new_tensor(responses)
        owner = self._owner[index].tolist()
        prompts = compacted(sorted(set(owner)))
        row = {prompt: i for i, prompt in enumerate(prompts)}
        for layer in self._layers.values():
            _reorder(responses, layer.keys, layer.values)
            _reorder(prompts, layer.prompt_keys, layer.prompt_values)
        assert self._first_logits is not None
        self._first_logits = self._first_logits[prompts]
        self.prompts = [self.prompts[i] for i in prompts]
        self._owner, self._lengths = index.new_tensor([row[prompt] for prompt in owner]), self._lengths[index]
        self._cached = max(self._lengths.tolist(), default=0)
        if responses:
            self._assign_slots(longest)

    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """Logits of the token after these prompts, which are the last ones of the cache."""
        lengths = self._prompt_lengths[-len(prompts) :]
        self._padded, filled = places(lengths, 0)
        self._unpadded = filled.flatten().nonzero()[:, 0]
        tokens = lengths.new_tensor([token for prompt in prompts for token in prompt])
        positions = torch.arange(filled.shape[1], device=lengths.device).repeat(len(prompts))[self._unpadded]
        # Transformers passes a mask of four dimensions on unchanged; this attention does not use it.
        return self._forward(tokens, positions, filled[:, None, None], self._attend_in_prompts, lengths.cumsum(0) - 1)

    def _attend_in_prompts(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Any
    ) -> Tensor:
        """Causal attention within each prompt; states are (tokens, heads, width)."""
        query, key, value = (states[self._padded].transpose(1, 2) for states in (query, key, value))
        index = _index(module)
        if index not in self._layers:
            # With the heads, width and type of these states.
            no_keys, no_values = key[:0, :, :0], value[:0, :, :0]
            self._layers[index] = _Layer(no_keys, no_values, no_keys, no_values)
            self._allocate()
        layer = self._layers[index]
        rows = slice(len(self.prompts) - len(key), len(self.prompts))
        layer.prompt_keys[rows, :, : key.shape[2]] = key
        layer.prompt_values[rows, :, : value.shape[2]] = value
        # Prompts are padded at the end, where causal attention does not look.
        attended, _ = sdpa_attention_forward(module, query, key.contiguous(), value.contiguous(), None, **options)
        result: Tensor = attended.flatten(0, 1)[self._unpadded]
        return result

    def _attend_in_step(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        scaling: float | None = None,
        **_: Any,
    ) -> Tensor:
        """Attention of one token of each response; states are (responses, heads, width).

        The additive mask is (prompts, 1, most responses to one, longest prompt + most cached tokens).
        """
        layer = self._layers[_index(module)]
        layer.keys[self._rows, :, self._lengths] = key
        layer.values[self._rows, :, self._lengths] = value
        keys, values = (states[: len(key), :, : self._cached + 1] for states in (layer.keys, layer.values))
        prompts, longest = self._in_prompt.shape
        prompt_keys, prompt_values = (part[:prompts, :, :longest] for part in (layer.prompt_keys, layer.prompt_values))
        # The query heads that share a key head are rows of one product.
        query = query.unflatten(1, (key.shape[1], -1))
        prompt_scores = self._by_prompt(query) @ prompt_keys.mT
        own_scores = self._by_prompt(query @ keys.mT)
        scores = torch.cat([prompt_scores, own_scores], dim=-1).float().unflatten(2, (mask.shape[2], -1))
        scaling = key.shape[-1] ** -0.5 if scaling is None else scaling
        weights = torch.add(mask[:, :, :, None], scores, alpha=scaling).softmax(-1).to(value.dtype).flatten(2, 3)
        prompt_weights, own_weights = weights.split([longest, self._cached + 1], dim=-1)
        attended = self._by_response(prompt_weights @ prompt_values) + self._by_response(own_weights) @ values
        return attended.flatten(1, 2)

    def _by_prompt(self, states: Tensor) -> Tensor:
        """From (responses, key heads, group, n) to (prompts, key heads, most responses to one * group, n)."""
        slots = states.flatten(1).index_select(0, self._slots.flatten())
        return slots.view(*self._slots.shape, *states.shape[1:]).transpose(1, 2).flatten(2, 3)

    def _by_response(self, states: Tensor) -> Tensor:
        """The inverse of `_by_prompt`."""
        slots = states.unflatten(2, (self._slots.shape[1], -1)).transpose(1, 2)
        return slots.flatten(0, 1).index_select(0, self._slot)

    def _assign_slots(self, longest: int) -> None:
        """Give each response a slot in (prompts, most responses to one); unused slots repeat the first response."""
        lengths = [len(prompt) for prompt in self.prompts]
        self._prompt_lengths = self._owner.new_tensor(lengths)
        self._rows = torch.arange(len(self._owner), device=self._owner.device)
        self._longest = longest
        counts = self._owner.bincount(minlength=len(lengths))
        self._slots, filled = places(counts, 0)
        order = self._owner.argsort(stable=True)
        self._slots = order[self._slots]
        self._slot = torch.empty_like(order)
        self._slot[order] = filled.flatten().nonzero()[:, 0]
        _, self._in_prompt = places(self._prompt_lengths, 0)
        needed = _Capacity(len(lengths), max(lengths), len(order), longest)
        largest = _Capacity(*map(max, self._capacity, needed))
        # Keep the largest allocation so far (growing copies) unless it exceeds the limit.
        self._capacity = largest if largest.tokens <= self._max_tokens else needed
        self._allocate()

    def _allocate(self) -> None:
        """Allocate memory for the cached tokens and one more of each response."""
        capacity = self._capacity
        for layer in self._layers.values():
            positions = layer.keys.shape[2]
            if positions <= self._cached:
                positions = max(2 * positions, _FIRST_POSITIONS)
            size = capacity.responses, min(positions, capacity.longest)
            layer.keys, layer.values = _resized(layer.keys, *size), _resized(layer.values, *size)
            size = capacity.prompts, capacity.longest_prompt
            layer.prompt_keys, layer.prompt_values = (
                _resized(layer.prompt_keys, *size),
                _resized(layer.prompt_values, *size),
            )

    def _forward(
        self, tokens: Tensor, positions: Tensor, mask: Tensor, attend: Callable[..., Tensor], ends: Tensor | int = 0
    ) -> Tensor:
        """Logits of the tokens after those at `ends`, by default after all. The mask has four dimensions."""
        output = self._model(
            input_ids=tokens[None],
            position_ids=positions[None],
            attention_mask=mask,
            use_cache=False,
            logits_to_keep=ends,
            shared_attention=attend,
        )
        logits: Tensor = output.logits[0]
        return logits


def compacted(rows: Sequence[int]) -> list[int]:
    """These rows (ascending) in an order that moves few: the last ones fill the gaps that removed rows leave."""
    moving = iter(rows[bisect_left(rows, len(rows)) :])
    staying = set(rows)
    return [row if row in staying else next(moving) for row in range(len(rows))]


def install_shared_cache(model: PreTrainedModel) -> None:
    """Let the model accept a `shared_attention` in its forward pass; without one it runs SDPA.

    Raises `ValueError` where the model's attention is not plain causal attention.
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
    shared_attention: Callable[..., Tensor] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention as transformers calls it: states are (rows, heads, tokens, width), one row with a cache."""
    if shared_attention is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    check_plain(module, options)
    states = (part[0].transpose(0, 1) for part in (query, key, value))
    return shared_attention(module, *states, attention_mask, **options)[None], None


def _index(module: nn.Module) -> int:
    return int(module.layer_idx)  # type: ignore[arg-type]


def _reorder(rows: Sequence[int], *tensors: Tensor) -> None:
    """Copy row rows[i] to row i, in place."""
    moved = [i for i, row in enumerate(rows) if row != i]
    for states in tensors:
        states[moved] = states[[rows[i] for i in moved]]


def _resized(states: Tensor, rows: int, positions: int) -> Tensor:
    """The states with these numbers of rows and positions, new ones filled with zeros."""
    if states.shape[0] == rows and states.shape[2] == positions:
        return states
    resized = states.new_zeros(rows, states.shape[1], positions, states.shape[3])
    kept = states[:rows, :, :positions]
    resized[: kept.shape[0], :, : kept.shape[2]] = kept
    return resized


AttentionInterface.register(_NAME, _attention)
# Without a registered mask function, transformers would drop the masks of this model in ordinary forward passes.
AttentionMaskInterface.register(_NAME, sdpa_mask)
