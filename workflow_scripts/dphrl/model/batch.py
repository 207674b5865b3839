"""Rows of token ids, padded for one forward pass or cut into micro-batches by a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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
    """Right-padded rows; causal attention never looks right, so the padding needs no mask.

    Attributes:
        input_ids: (rows, longest), int64.
        predicts_response: (rows, longest), bool: positions whose logits predict a response token.
        targets: (response tokens of all rows, in row order), int64.
    """

    input_ids: Tensor
    predicts_response: Tensor
    targets: Tensor


def collate(rows: Sequence[Row], device: torch.device | str = "cpu") -> Batch:
    """Pad rows into a batch.

    Raises:
        ValueError: a prompt or a response is empty.
    """
    longest = max(row.length for row in rows)
    input_ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    predicts = torch.zeros(len(rows), longest, dtype=torch.bool)
    targets: list[int] = []
    for i, row in enumerate(rows):
        if not row.prompt or not row.response:
            raise ValueError(
                f"row {i} has {len(row.prompt)} prompt and {len(row.response)} response tokens, both need >= 1"
            )
        input_ids[i, : row.length] = torch.tensor([*row.prompt, *row.response])
        predicts[i, len(row.prompt) - 1 : row.length - 1] = True
        targets.extend(row.response)
    return Batch(input_ids.to(device), predicts.to(device), torch.tensor(targets, device=device))


def micro_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Cut row indices into groups whose padded size stays within `token_budget`; longest rows first, ties by index.

    A row longer than the budget gets a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    groups: list[list[int]] = []
    for i in order:
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= token_budget:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
