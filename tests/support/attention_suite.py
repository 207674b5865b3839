"""Packed rows compared with padded ones, on any device: on a CPU with the flash attention of `flash_attention`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tiny_models import KINDS
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from dphrl.policy.batch import PromptSharing, Row, collate
from dphrl.policy.logprobs import Attention, LogProbs
from dphrl.policy.packing import packed_attention, packed_layout

VOCABULARY = 512
# Packed rows may be so much farther from float32 than padded ones.
MORE = 1.25


@dataclass(frozen=True)
class Pass:
    """What a forward and backward pass gives: log-probs in row order, and the gradient of all weights, float32."""

    logprobs: Tensor
    gradient: Tensor

    def errors(self, exact: Pass) -> tuple[float, float]:
        """Root mean square of the differences of log-probs in nats, and the relative norm of those of gradients."""
        differences = (self.logprobs - exact.logprobs).square().mean().sqrt()
        return float(differences), float((self.gradient - exact.gradient).norm() / exact.gradient.norm())


def model_of(
    kind: str, width: int, device: str, dtype: torch.dtype, heads: int = 8, of_keys: int = 2
) -> PreTrainedModel:
    """Two layers with heads of this width, the weights equal for all types but for their rounding."""
    config, model = KINDS[kind]
    torch.manual_seed(0)
    return model(
        config(
            vocab_size=VOCABULARY,
            hidden_size=heads * width,
            intermediate_size=2 * heads * width,
            num_hidden_layers=2,
            num_attention_heads=heads,
            num_key_value_heads=of_keys,
            max_position_embeddings=16_384,
            # So large that a wrong position or a look at another row shows, whatever the width.
            initializer_range=0.6 * (heads * width) ** -0.5,
        )
    ).to(device, dtype)


def rows_of(prompts: Sequence[int], responses: Sequence[Sequence[int]], vocabulary: int = VOCABULARY) -> list[Row]:
    """Responses of these lengths to each prompt, of random tokens."""
    chance = random.Random(0)

    def tokens(length: int) -> list[int]:
        return chance.choices(range(vocabulary), k=length)

    return [
        Row(prompt, tokens(length))
        for prompt, lengths in zip(map(tokens, prompts), responses, strict=True)
        for length in lengths
    ]


def pass_over(
    model: PreTrainedModel, rows: Sequence[Row], token_budget: int, attention: Attention, sharing: PromptSharing
) -> Pass:
    """One pass over all rows, in as many micro-batches as the budget asks for."""
    module = LogProbs(model, attention)
    model.zero_grad()
    logprobs: list[Tensor] = [torch.empty(0)] * len(rows)
    for part in module.plan(rows, token_budget, sharing):
        batch = collate([rows[i] for i in part.rows], model.device, part.shared, part.form)
        found = module(batch)[0]
        by_row = found.split([len(rows[i].response) for i in part.rows])
        # Advantages of both signs, one per row.
        sum((-1) ** i * (1 + i) * values.sum() for i, values in zip(part.rows, by_row, strict=True)).backward()
        for i, values in zip(part.rows, by_row, strict=True):
            logprobs[i] = values.detach().cpu()
    gradients = [parameter.grad.float().flatten().cpu() for parameter in model.parameters()]
    return Pass(torch.cat(logprobs), torch.cat(gradients))


def check_packed_rows(kind: str, width: int, device: str, rows: Sequence[Row], token_budget: int) -> None:
    """In bfloat16 packed rows are as close to float32 as padded ones, with shared prompts and without."""
    exact = pass_over(model_of(kind, width, device, torch.float32), rows, 1, "padded", "off")
    model = model_of(kind, width, device, torch.bfloat16)
    for sharing in ("off", "on"):
        padded, packed = (
            pass_over(model, rows, token_budget, attention, sharing).errors(exact) for attention in ("padded", "packed")
        )
        print(f"{kind}, {width}, {sharing}: errors of log-probs (nats) and gradients: {padded} padded, {packed} packed")
        assert packed[0] <= MORE * padded[0]
        assert packed[1] <= MORE * padded[1]
        # And so are padded ones, or all would be equally wrong.
        assert padded[0] < 0.05
        assert padded[1] < 0.06  # 0.050 on an H100


def check_operator(
    device: str,
    dtype: torch.dtype,
    tolerance: float,
    heads: tuple[int, int],
    width: int,
    runs: Runs,
    scale: float | None,
) -> None:
    """Packed attention and its gradient are those of a masked attention of the whole sequence in float64.

    Args:
        tolerance: of the norm of the differences, relative to the norm.
        heads: of queries and of keys.
        runs: numbers of tokens: of the shared prompts, of other rows, and of the responses to each prompt.
    """
    prompts, alone, responses = runs
    counts = [*prompts, *alone, *(length for group in responses for length in group)]
    run = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    # The prompt that each token sees in addition to its run, or its own run.
    of_run = torch.tensor([*range(len(prompts) + len(alone)), *(i for i, group in enumerate(responses) for _ in group)])
    visible = ((run[:, None] == run) | (of_run[run][:, None] == run)).tril()
    generator = torch.Generator().manual_seed(0)
    exact = [
        (2 * torch.randn(len(run), n, width, generator=generator)).to(dtype).double().requires_grad_()
        for n in (heads[0], heads[1], heads[1])
    ]
    weights = torch.randn(len(run), heads[0], width, generator=generator).to(dtype)
    states = (part.transpose(0, 1) for part in exact)
    expected = scaled_dot_product_attention(*states, attn_mask=visible, scale=scale, enable_gqa=True).transpose(0, 1)
    own = [part.detach().to(device, dtype).requires_grad_() for part in exact]
    layout = packed_layout(torch.arange(len(run), device=device)[None], *runs)
    found = packed_attention(*own, layout, scale)
    gradients = torch.autograd.grad((weights.to(device) * found).sum(), own)
    expected_gradients = torch.autograd.grad((weights.double() * expected).sum(), exact)
    for ours, theirs in zip((found, *gradients), (expected, *expected_gradients), strict=True):
        theirs = theirs.detach()
        assert float((ours.detach().cpu().double() - theirs).norm() / theirs.norm()) <= tolerance


Runs = tuple[Sequence[int], Sequence[int], Sequence[Sequence[int]]]
RUNS: dict[str, Runs] = {
    "shared and not": ([3, 1], [5, 2], [[2, 4, 1], [1, 1]]),
    "one token each": ([1, 1], [], [[1, 1], [1, 1, 1]]),
    "not shared": ([], [1, 7, 2], []),
    "a long and many short ones": ([40, 300, 1], [129, 2], [[260, 3, 1], [2] * 16, [1, 64]]),
}
