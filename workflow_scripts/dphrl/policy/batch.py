"""Rows of token ids cut into micro-batches, and a batch for the forward pass: padded, or one sequence."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import torch
from torch import Tensor

from dphrl.policy.packing import PackedLayout, packed_layout
from dphrl.policy.prompt_sharing import PromptLayout, prompt_layout

# Padded are all rows, or with shared prompts the parts that attention takes; packed rows have no padding anywhere.
Form = Literal["padded", "packed"]
PromptSharing = Literal["auto", "on", "off"]
_T = TypeVar("_T")

# How many times as many tokens a prompt's rows must have without sharing, for sharing to be faster. Padded, the gathers
# of the attention cost as much as fewer tokens would save; packed there are none.
_LEAST_SAVING: Final[dict[Form, float]] = {"padded": 1.15, "packed": 1.0}


@dataclass(frozen=True)
class Row:
    """One prompt with one response, as token ids."""

    prompt: Sequence[int]
    response: Sequence[int]

    @property
    def length(self) -> int:
        """Tokens of prompt and response together."""
        return len(self.prompt) + len(self.response)


@dataclass(frozen=True)
class Batch:
    """Rows for one forward pass, whose results are in row order with or without a layout.

    Attributes:
        input_ids: int64; (rows, longest), right-padded (causal attention sees nothing to the right, so padding needs no
            mask); with a layout (1, tokens).
        predicts: (response tokens of all rows, in row order), int64: positions in the flat `input_ids` whose
            logits predict them.
        targets: (response tokens of all rows, in row order), int64.
        layout: of one sequence with all rows; None where rows are padded.
    """

    input_ids: Tensor
    predicts: Tensor
    targets: Tensor
    layout: PromptLayout | PackedLayout | None = None


def collate(
    rows: Sequence[Row], device: torch.device | str = "cpu", shared: bool = False, form: Form = "padded"
) -> Batch:
    """Rows as a batch, with `shared` with equal prompts held once.

    Raises:
        ValueError: a prompt or a response is empty.
    """
    for i, row in enumerate(rows):
        if not row.prompt or not row.response:
            raise ValueError(
                f"row {i} has {len(row.prompt)} prompt and {len(row.response)} response tokens, both need >= 1"
            )
    targets = torch.tensor([token for row in rows for token in row.response], device=device)
    if shared or form == "packed":
        return _joined(rows, targets, shared, form)
    longest = max(row.length for row in rows)
    input_ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    predicts: list[int] = []
    for i, row in enumerate(rows):
        input_ids[i, : row.length] = torch.tensor([*row.prompt, *row.response])
        predicts.extend(range(i * longest + len(row.prompt) - 1, i * longest + row.length - 1))
    return Batch(input_ids.to(targets.device), torch.tensor(predicts, device=targets.device), targets)


def _joined(rows: Sequence[Row], targets: Tensor, shared: bool, form: Form) -> Batch:
    """One sequence: prompts that are held once, then rows that share none, then the responses to these prompts."""
    groups: dict[tuple[int, ...] | int, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(tuple(row.prompt) if shared else i, []).append(i)
    split = [group for group in groups.values() if len(group) > 1 or form == "padded"]
    whole = [group[0] for group in groups.values() if len(group) == 1 and form == "packed"]
    tokens: list[int] = []
    positions: list[int] = []
    # Of each row: the end of its prompt, which predicts its first response token, and where its response begins.
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}

    def append_prompt(group: Sequence[int]) -> None:
        prompt = rows[group[0]].prompt
        tokens.extend(prompt)
        positions.extend(range(len(prompt)))
        ends.update(dict.fromkeys(group, len(tokens) - 1))

    def append_response(i: int) -> None:
        starts[i] = len(tokens)
        tokens.extend(rows[i].response)
        positions.extend(range(len(rows[i].prompt), rows[i].length))

    for group in split:
        append_prompt(group)
    for i in whole:
        append_prompt([i])
        append_response(i)
    for group in split:
        for i in group:
            append_response(i)
    predicts = [
        at for i, row in enumerate(rows) for at in (ends[i], *range(starts[i], starts[i] + len(row.response) - 1))
    ]
    device = targets.device
    input_ids, position_ids = (torch.tensor([ids], device=device) for ids in (tokens, positions))
    prompts = [len(rows[group[0]].prompt) for group in split]
    responses = [[len(rows[i].response) for i in group] for group in split]
    layout = (
        packed_layout(position_ids, prompts, [rows[i].length for i in whole], responses)
        if form == "packed"
        else prompt_layout(position_ids, prompts, responses)
    )
    return Batch(input_ids, torch.tensor(predicts, device=device), targets, layout)


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
        prompt_sharing: "on" stores each prompt once per micro-batch, "off" repeats it in every row. "auto" shares
            where that is faster: in packed rows always, in padded rows if it saves 13 % of their tokens or more. The
            responses of a shared prompt stay together unless they exceed the budget. A row beyond the budget gets its
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
        longest_first = sorted(single, key=lambda i: (-rows[i].length, i))
        alone = _fill(longest_first, lambda group: len(group) * rows[group[0]].length, token_budget)
    return [
        *(MicroBatch(group, True, form) for group in _pack(rows, shared, token_budget, form)),
        *(MicroBatch(group, False, form) for group in alone),
    ]


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
