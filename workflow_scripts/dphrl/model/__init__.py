"""Policies: loading, batches, and the forward pass that gives the log-probs of response tokens."""

from dphrl.model.batch import Batch, Row, collate
from dphrl.model.packing import MicroBatch, PromptSharing, micro_batches, plan
from dphrl.model.policy import LogProbs, check_model, load_model, logprobs_by_row, response_logprobs, response_topk

__all__ = [
    "Batch",
    "LogProbs",
    "MicroBatch",
    "PromptSharing",
    "Row",
    "check_model",
    "collate",
    "load_model",
    "logprobs_by_row",
    "micro_batches",
    "plan",
    "response_logprobs",
    "response_topk",
]
