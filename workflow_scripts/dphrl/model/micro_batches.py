"""Rows cut into micro-batches by a token budget: a function of their token ids alone, equal on every machine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from dphrl.model.batch import Row

PromptSharing = Literal["auto", "on", "off"]
_T = TypeVar("_T")

# Below it the gathers of the attention cost as much as the saved tokens would (benchmarks/prompt_sharing.py).
_LEAST_SAVING = 1.15


@dataclass(frozen=True)
class MicroBatch:
    """Indices of the rows of one forward and backward pass, and whether their prompts are shared in it."""

    rows: list[int]
    shared: bool


def plan(rows: Sequence[Row], token_budget: int, prompt_sharing: PromptSharing = "auto") -> list[MicroBatch]:
    """Cut rows into micro-batches of at most `token_budget` tokens, padding included; longest rows first.

    Args:
        prompt_sharing: "on" holds each prompt once per micro-batch, "off" pads each row, "auto" shares a prompt if its
            rows have at least 1.15 times as many tokens without sharing. The responses of a shared prompt stay together
            unless they exceed the budget; a row beyond the budget gets its own micro-batch.
    """
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        by_prompt.setdefault(tuple(row.prompt), []).append(i)
    shared: list[list[int]] = []
    if prompt_sharing != "off":
        shared = [g for g in by_prompt.values() if prompt_sharing == "on" or _saves_enough([rows[i] for i in g])]
    single = sorted({*range(len(rows))}.difference(*shared))
    padded = micro_batches([rows[i].length for i in single], token_budget)
    return [
        *(MicroBatch(group, True) for group in _pack(rows, shared, token_budget)),
        *(MicroBatch([single[i] for i in group], False) for group in padded),
    ]


def micro_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Cut row indices into groups whose padded size stays within `token_budget`; longest rows first, ties by index.

    A row longer than the budget gets its own group.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    return _fill(order, lambda group: len(group) * lengths[group[0]], token_budget)


def _saves_enough(rows: Sequence[Row]) -> bool:
    """Whether the rows of one prompt are cheaper when it is shared."""
    return sum(row.length for row in rows) >= _LEAST_SAVING * _shared_tokens(rows)


def _shared_tokens(rows: Sequence[Row]) -> int:
    return len(rows[0].prompt) + sum(len(row.response) for row in rows)


def _pack(rows: Sequence[Row], groups: Sequence[list[int]], token_budget: int) -> list[list[int]]:
    """Join groups of rows, each of one prompt, into micro-batches; a group beyond the budget is cut first."""

    def size(chunk: Sequence[int]) -> int:
        return _shared_tokens([rows[i] for i in chunk])

    chunks = [chunk for group in groups for chunk in _fill(group, size, token_budget)]
    chunks.sort(key=lambda chunk: (-max(rows[i].length for i in chunk), chunk[0]))
    packed = _fill(chunks, lambda together: sum(map(size, together)), token_budget)
    return [[i for chunk in together for i in chunk] for together in packed]


def _fill(items: Iterable[_T], size: Callable[[list[_T]], int], token_budget: int) -> list[list[_T]]:
    """Cut items, in their order, into groups whose size stays within the budget where they have more than one item."""
    groups: list[list[_T]] = []
    for item in items:
        if groups and size([*groups[-1], item]) <= token_budget:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups
