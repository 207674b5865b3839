"""Rows cut into micro-batches by a token budget: a function of their token ids and form, equal on every machine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from dphrl.model.batch import Form, Row

PromptSharing = Literal["auto", "on", "off"]
_T = TypeVar("_T")

# How many times as many tokens a prompt's rows must have without sharing, for sharing to be faster. Padded, the gathers
# of the attention cost as much as fewer tokens would save (dev/benchmarks/prompt_sharing.py); packed there are none.
_LEAST_SAVING: Final[dict[Form, float]] = {"padded": 1.15, "packed": 1.0}


@dataclass(frozen=True)
class MicroBatch:
    """Indices of the rows of one forward and backward pass, and how `collate` makes a batch of them."""

    rows: list[int]
    shared: bool
    form: Form = "padded"


def plan(
    rows: Sequence[Row], token_budget: int, prompt_sharing: PromptSharing = "auto", form: Form = "padded"
) -> list[MicroBatch]:
    """Cut rows into micro-batches of at most `token_budget` computed tokens, padding included; longest rows first.

    Args:
        prompt_sharing: "on" holds each prompt once per micro-batch, "off" none, "auto" shares a prompt if that makes
            its rows faster: packed always, padded if they have at least 1.15 times as many tokens without sharing. The
            responses of a shared prompt stay together unless they exceed the budget; a row beyond the budget gets its
            own micro-batch.
    """
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        by_prompt.setdefault(tuple(row.prompt), []).append(i)
    least = {"on": 0.0, "auto": _LEAST_SAVING[form], "off": float("inf")}[prompt_sharing]
    shared = [group for group in by_prompt.values() if _saving([rows[i] for i in group]) >= least]
    single = sorted({*range(len(rows))}.difference(*shared))
    if form == "packed":
        alone = _pack(rows, [[i] for i in single], token_budget, form)
    else:
        alone = [[single[i] for i in group] for group in micro_batches([rows[i].length for i in single], token_budget)]
    return [
        *(MicroBatch(group, True, form) for group in _pack(rows, shared, token_budget, form)),
        *(MicroBatch(group, False, form) for group in alone),
    ]


def micro_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Cut row indices into groups whose padded size stays within `token_budget`; longest rows first, ties by index.

    A row longer than the budget gets its own group.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    return _fill(order, lambda group: len(group) * lengths[group[0]], token_budget)


def _saving(rows: Sequence[Row]) -> float:
    """How many times as many tokens the rows of one prompt have if each holds it."""
    return sum(row.length for row in rows) / (len(rows[0].prompt) + sum(len(row.response) for row in rows))


def _pack(rows: Sequence[Row], groups: Sequence[list[int]], token_budget: int, form: Form) -> list[list[int]]:
    """Join groups of rows, each of one prompt, into micro-batches; a group beyond the budget is cut first."""

    def size(chunks: Sequence[Sequence[int]]) -> int:
        """Tokens that are computed, with the prompt of each chunk once; padded in attention, where the form pads."""
        prompts = [len(rows[chunk[0]].prompt) for chunk in chunks]
        responses = [len(rows[i].response) for chunk in chunks for i in chunk]
        if form == "packed":
            return sum(prompts) + sum(responses)
        return len(prompts) * max(prompts) + len(responses) * max(responses)

    chunks = [chunk for group in groups for chunk in _fill(group, lambda chunk: size([chunk]), token_budget)]
    chunks.sort(key=lambda chunk: (-max(rows[i].length for i in chunk), chunk[0]))
    return [[i for chunk in together for i in chunk] for together in _fill(chunks, size, token_budget)]


def _fill(items: Iterable[_T], size: Callable[[list[_T]], int], token_budget: int) -> list[list[_T]]:
    """Cut items, in their order, into groups whose size stays within the budget where they have more than one item."""
    groups: list[list[_T]] = []
    for item in items:
        if groups and size([*groups[-1], item]) <= token_budget:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups
