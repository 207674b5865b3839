"""Samples do not depend on the number of jobs that draw them."""

from pathlib import Path

import polars as pl
import pytest
from engine_suite import MAX_MODEL_LEN, Policy

from dphrl.config.blocks.sampling import PlanConfig
from dphrl.rollout.requests import SamplingPlan, rollout_frame, shard

PROMPTS = pl.DataFrame(
    {
        "prompt_id": [f"p{i:02}" for i in range(23)],
        "prompt_token_ids": [[3 + (7 * i + t) % 40 for t in range(3 + i % 9)] for i in range(23)],
    }
)
PLAN = PlanConfig(n=3, max_tokens=24, greedy=True)


@pytest.mark.parametrize("shards", [2, 5, 40])
def test_samples_do_not_depend_on_the_number_of_shards(shards: int, tmp_path: Path) -> None:
    policy = Policy.write(tmp_path)
    assert PLAN.max_tokens + 12 < MAX_MODEL_LEN

    def sample(number: int) -> pl.DataFrame:
        """The samples of that many jobs, each with a new engine."""
        parts = []
        for index in range(number):
            asked = SamplingPlan("presample", PLAN, seed=1).requests(shard(PROMPTS, index, number))
            parts.append(rollout_frame(asked, policy.engine("transformers").generate(asked) if asked else []))
        return pl.concat(parts)

    whole, spread = sample(1), sample(shards)
    assert whole.drop("sampler_logprobs").equals(spread.drop("sampler_logprobs"))
    for ours, theirs in zip(whole["sampler_logprobs"], spread["sampler_logprobs"], strict=True):
        assert ours.to_list() == pytest.approx(theirs.to_list(), abs=1e-5)
