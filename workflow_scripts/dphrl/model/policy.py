"""A policy and the one forward pass that reference, training and canary all use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PreTrainedModel

from dphrl.model.batch import Batch, Row, collate, micro_batches

_LOGITS_PER_CHUNK = 1 << 24


def load_model(folder: Path, dtype: str) -> PreTrainedModel:
    """A causal language model from a Hugging Face safetensors folder, nothing of it executed as code.

    Args:
        dtype: "float32" or "bfloat16".
    """
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), local_files_only=True, trust_remote_code=False, use_safetensors=True
    )
    return model


class LogProbs(nn.Module):
    """A causal language model as a function from rows to the log-probs of their response tokens."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probs of the untruncated softmax at temperature 1, and the entropy at each position.

        The hidden states are cut to the positions that predict a response token, and the head is applied in chunks
        (recomputed in the backward pass), so the logits of a whole batch never exist at once.

        Returns:
            Two float32 tensors (response tokens of all rows, in row order); the entropy has no gradient.
        """
        hidden = self.model.get_decoder()(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        hidden = hidden[batch.predicts_response]
        head = self.model.get_output_embeddings()
        chunk = max(1, _LOGITS_PER_CHUNK // head.weight.shape[0])
        parts = [
            checkpoint(_chunk_logprobs, head, h, t, use_reentrant=False)
            if torch.is_grad_enabled() and len(hidden) > chunk
            else _chunk_logprobs(head, h, t)
            for h, t in zip(hidden.split(chunk), batch.targets.split(chunk), strict=True)
        ]
        return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropy for _, entropy in parts])


def _chunk_logprobs(head: nn.Module, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = head(hidden).float()
    logprobs = -cross_entropy(logits, targets, reduction="none")
    with torch.no_grad():
        log_softmax = logits.log_softmax(dim=-1)
        entropy = -(log_softmax.exp() * log_softmax).sum(dim=-1)
    return logprobs, entropy


@torch.no_grad()
def response_logprobs(module: nn.Module, rows: Sequence[Row], token_budget: int, device: str = "cpu") -> list[Tensor]:
    """Log-probs of each row's response tokens, float32 on the CPU, in the order of `rows`."""
    result: list[Tensor] = [torch.empty(0)] * len(rows)
    for group in micro_batches([row.length for row in rows], token_budget):
        logprobs, _ = module(collate([rows[i] for i in group], device))
        for i, part in zip(group, logprobs.cpu().split([len(rows[i].response) for i in group]), strict=True):
            result[i] = part
    return result
