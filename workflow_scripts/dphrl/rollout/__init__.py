"""Drawing responses: plans and seeds, and the engine that serves them."""

from dphrl.rollout.requests import (
    GREEDY,
    Completion,
    Request,
    plan_requests,
    rollout_frame,
    sample_seed,
    shard,
)
from dphrl.rollout.vllm_engine import VllmEngine

__all__ = [
    "GREEDY",
    "Completion",
    "Request",
    "VllmEngine",
    "plan_requests",
    "rollout_frame",
    "sample_seed",
    "shard",
]
