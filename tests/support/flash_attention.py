"""PyTorch's flash attention over packed sequences, in plain arithmetic on a CPU: for tests without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


@contextmanager
def flash_attention_on_cpu() -> Iterator[None]:
    """Give `aten::_flash_attention_forward` and its backward a CPU kernel: in float32, of float64 states in float64.

    The kernels check what those of CUDA check or take for granted, and leave undefined (here nan) what those leave so.
    """
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_flash_attention_forward", _forward, "CPU")
        library.impl("_flash_attention_backward", _backward, "CPU")
        yield


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: Tensor,
    bounds_of_keys: Tensor,
    longest: int,
    longest_of_keys: int,
    dropout: float,
    causal: bool,
    debug_mask: bool,
    *,
    scale: float | None = None,
    **others: Any,
) -> tuple[Tensor, ...]:
    assert dropout == 0.0
    assert not debug_mask
    assert {*others.values()} <= {None}
    _check(query, key, value, (bounds, longest), (bounds_of_keys, longest_of_keys))
    found, sums = torch.full_like(query, torch.nan), _exact(query).new_full((query.shape[1], len(query)), torch.nan)
    for own, keys in zip(_slices(bounds), _slices(bounds_of_keys), strict=True):
        scores = _scores(query[own], key[keys], causal, scale)
        sums[:, own] = scores.logsumexp(-1)
        found[own] = (scores.softmax(-1) @ _repeated(value[keys], query)).transpose(0, 1).to(found.dtype)
    unused = torch.empty(0)
    return found, sums, unused, unused, unused


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    found: Tensor,
    sums: Tensor,
    bounds: Tensor,
    bounds_of_keys: Tensor,
    longest: int,
    longest_of_keys: int,
    dropout: float,
    causal: bool,
    rng_state: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """As the kernel: the weights are those under the given log-sum-exps, the mean gradient that of the given result."""
    assert dropout == 0.0
    assert {*others.values()} <= {None}
    _check(query, key, value, (bounds, longest), (bounds_of_keys, longest_of_keys))
    assert grad.dtype == found.dtype == query.dtype
    assert grad.shape == found.shape == query.shape
    assert sums.shape == (query.shape[1], len(query))
    assert sums.is_contiguous()
    of_query, of_key, of_value = (torch.full_like(states, torch.nan) for states in (query, key, value))
    for own, keys in zip(_slices(bounds), _slices(bounds_of_keys), strict=True):
        weights = (_scores(query[own], key[keys], causal, scale) - sums[:, own, None]).exp()
        outer, result = (_exact(states[own]).transpose(0, 1) for states in (grad, found))
        inner = outer @ _repeated(value[keys], query).mT
        of_scores = weights * (inner - (outer * result).sum(-1, keepdim=True)) * _scale(query, scale)
        of_query[own] = (of_scores @ _repeated(key[keys], query)).transpose(0, 1).to(query.dtype)
        of_key[keys] = _summed(of_scores.mT @ _exact(query[own]).transpose(0, 1), key)
        of_value[keys] = _summed(weights.mT @ outer, value)
    return of_query, of_key, of_value


def _check(query: Tensor, key: Tensor, value: Tensor, *runs: tuple[Tensor, int]) -> None:
    assert query.dtype == key.dtype == value.dtype
    assert key.shape == value.shape
    assert query.shape[2] == key.shape[2] <= 256
    assert query.shape[1] % key.shape[1] == query.shape[2] % 8 == 0
    assert {states.stride(-1) for states in (query, key, value)} == {1}
    for states, (bounds, longest) in zip((query, key), runs, strict=True):
        assert bounds.dtype == torch.int32
        assert bounds.is_contiguous()
        assert (bounds[0], bounds[-1]) == (0, len(states))
        assert 0 < bounds.diff().min() <= bounds.diff().max() <= longest
    assert len(runs[0][0]) == len(runs[1][0])


def _slices(bounds: Tensor) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(bounds.tolist())]


def _exact(states: Tensor) -> Tensor:
    return states if states.dtype == torch.float64 else states.float()


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[2] ** -0.5 if scale is None else scale


def _repeated(states: Tensor, query: Tensor) -> Tensor:
    """(heads of queries, tokens, width) of keys or values."""
    return _exact(states).repeat_interleave(query.shape[1] // states.shape[1], dim=1).transpose(0, 1)


def _summed(gradients: Tensor, states: Tensor) -> Tensor:
    """The inverse of `_repeated`, for gradients."""
    return gradients.unflatten(0, (states.shape[1], -1)).sum(1).transpose(0, 1).to(states.dtype)


def _scores(query: Tensor, key: Tensor, causal: bool, scale: float | None) -> Tensor:
    scores = _exact(query).transpose(0, 1) @ _repeated(key, query).mT * _scale(query, scale)
    if not causal:
        return scores
    assert len(query) == len(key)
    return scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -torch.inf)
