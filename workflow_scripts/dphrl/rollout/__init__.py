"""Drawing responses: plans and seeds, and what serves them: an engine, or a file of recorded answers.

The engines are imported by the name of their module: a run of recorded answers needs neither of them nor torch.
"""

from dphrl.rollout.replay import RecordedError, ReplayEngine, response_encoder
from dphrl.rollout.requests import (
    GREEDY,
    Completion,
    Request,
    plan_requests,
    rollout_frame,
    sample_seed,
    shard,
)

__all__ = [
    "GREEDY",
    "Completion",
    "RecordedError",
    "ReplayEngine",
    "Request",
    "plan_requests",
    "response_encoder",
    "rollout_frame",
    "sample_seed",
    "shard",
]
