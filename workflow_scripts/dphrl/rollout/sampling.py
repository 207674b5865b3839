"""A plan carried out on a policy: one engine start for all its responses."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from dphrl.config.engine import EngineConfig
from dphrl.config.sampling import PlanConfig
from dphrl.rollout.requests import plan_requests, rollout_frame
from dphrl.rollout.vllm_engine import VllmEngine


def draw_samples(
    prompts: pl.DataFrame, policy: Path, name: str, plan: PlanConfig, engine: EngineConfig, seed: int, label: str
) -> pl.DataFrame:
    """The rollouts of a plan on `prompts`; without prompts (an empty shard) no engine is started.

    Args:
        prompts: frame with prompt_id and prompt_token_ids.
        policy: folder of the policy.
        name: the plan's name.
        label: what progress lines are called.
    """
    requests = plan_requests(prompts, name, plan, seed)
    completions = VllmEngine(policy, engine).generate(requests, label) if requests else []
    return rollout_frame(requests, completions)
