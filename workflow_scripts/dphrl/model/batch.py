"""Rows of token ids as one batch for the forward pass: padded, or as one sequence that holds each prompt once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dphrl.model.prompt_sharing import PromptLayout, prompt_layout


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
        layout: of a sequence that holds each prompt once; None where rows are padded.
    """

    input_ids: Tensor
    predicts: Tensor
    targets: Tensor
    layout: PromptLayout | None = None


def collate(rows: Sequence[Row], device: torch.device | str = "cpu", shared: bool = False) -> Batch:
    """Rows as a batch: padded, or `shared`, with equal prompts held once.

    Raises:
        ValueError: a prompt or a response is empty.
    """
    for i, row in enumerate(rows):
        if not row.prompt or not row.response:
            raise ValueError(
                f"row {i} has {len(row.prompt)} prompt and {len(row.response)} response tokens, both need >= 1"
            )
    targets = torch.tensor([token for row in rows for token in row.response], device=device)
    return (_shared if shared else _padded)(rows, targets)


def _padded(rows: Sequence[Row], targets: Tensor) -> Batch:
    longest = max(row.length for row in rows)
    input_ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    predicts: list[int] = []
    for i, row in enumerate(rows):
        input_ids[i, : row.length] = torch.tensor([*row.prompt, *row.response])
        predicts.extend(range(i * longest + len(row.prompt) - 1, i * longest + row.length - 1))
    return Batch(input_ids.to(targets.device), torch.tensor(predicts, device=targets.device), targets)


def _shared(rows: Sequence[Row], targets: Tensor) -> Batch:
    device = targets.device
    numbers: dict[tuple[int, ...], int] = {}
    prompt_of = [numbers.setdefault(tuple(row.prompt), len(numbers)) for row in rows]
    tokens = [token for prompt in numbers for token in prompt]
    ends = torch.tensor([len(prompt) for prompt in numbers]).cumsum(0)
    lengths = torch.tensor([len(row.response) for row in rows])
    # A token is predicted at the position before it, the first of a response at the end of its prompt.
    predicts = torch.arange(len(tokens) - 1, len(tokens) + len(targets) - 1)
    predicts[lengths.cumsum(0) - lengths] = ends[prompt_of] - 1
    layout = prompt_layout([len(prompt) for prompt in numbers], lengths.tolist(), prompt_of, device)
    input_ids = torch.cat([torch.tensor(tokens, device=device), targets])[None]
    return Batch(input_ids, predicts.to(device), targets, layout)
