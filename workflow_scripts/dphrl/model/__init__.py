"""Policies: loading, batches, and the forward pass that gives the log-probs of response tokens."""

from dphrl.model.batch import Batch, Row, collate, micro_batches
from dphrl.model.policy import LogProbs, load_model, response_logprobs

__all__ = ["Batch", "LogProbs", "Row", "collate", "load_model", "micro_batches", "response_logprobs"]
