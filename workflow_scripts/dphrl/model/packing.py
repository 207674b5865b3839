"""Rows cut into micro-batches by a token budget: a function of their token ids alone, equal on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dphrl.model.batch import Row

PromptSharing = Literal["auto", "on", "off"]

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
    groups: list[list[int]] = []
    for i in order:
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= token_budget:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _saves_enough(rows: Sequence[Row]) -> bool:
    """Whether the rows of one prompt are cheaper when it is shared."""
    return sum(row.length for row in rows) >= _LEAST_SAVING * _shared_tokens(rows)


def _shared_tokens(rows: Sequence[Row]) -> int:
    return len(rows[0].prompt) + sum(len(row.response) for row in rows)


def _pack(rows: Sequence[Row], groups: Sequence[list[int]], token_budget: int) -> list[list[int]]:
    """Join groups of rows, each of one prompt, into micro-batches; a group beyond the budget is cut first."""
    chunks = [chunk for group in groups for chunk in _chunks(rows, group, token_budget)]
    packed: list[list[int]] = []
    used = 0
    for chunk in sorted(chunks, key=lambda c: (-max(rows[i].length for i in c), c[0])):
        size = _shared_tokens([rows[i] for i in chunk])
        if packed and used + size <= token_budget:
            packed[-1].extend(chunk)
            used += size
        else:
            packed.append(list(chunk))
            used = size
    return packed


def _chunks(rows: Sequence[Row], group: Sequence[int], token_budget: int) -> list[list[int]]:
    chunks: list[list[int]] = []
    used = 0
    for i in group:
        if chunks and used + len(rows[i].response) <= token_budget:
            chunks[-1].append(i)
            used += len(rows[i].response)
        else:
            chunks.append([i])
            used = rows[i].length
    return chunks
