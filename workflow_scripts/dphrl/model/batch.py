"""Rows of token ids as one batch for the forward pass: padded, or as one sequence that holds prompts once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dphrl.model.packing import PackedLayout, packed_layout
from dphrl.model.prompt_sharing import PromptLayout, prompt_layout

# Padded are all rows, or with shared prompts the parts that attention takes; packed rows have no padding anywhere.
Form = Literal["padded", "packed"]


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
    return _joined(rows, targets, shared, form) if shared or form == "packed" else _padded(rows, targets)


def _padded(rows: Sequence[Row], targets: Tensor) -> Batch:
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
