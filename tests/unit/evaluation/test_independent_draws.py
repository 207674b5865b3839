"""A policy that is the base under another name, sampled with the real engine."""

from pathlib import Path

import polars as pl
import pytest
from engine_suite import Policy
from made_evaluations import study

from dphrl.config.blocks.sampling import EvaluatePlan
from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.evaluation.per_prompt import evaluate
from dphrl.policy.engine import Engine
from dphrl.policy.requests import SamplingPlan, rollout_frame, shard

TOKENS = range(2, 12)
PROMPTS = pl.DataFrame(
    {
        "prompt_id": [f"p{one}{two}" for one in TOKENS for two in TOKENS],
        "prompt_token_ids": [[one, two] for one in TOKENS for two in TOKENS],
    }
)
K = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Policy.write(Path(tmp_path_factory.mktemp("policy"))).engine("transformers")


def sampled(engine: Engine, name: str) -> pl.DataFrame:
    plan = EvaluatePlan(n=16, greedy=False, max_tokens=3, temperature=1.0, top_p=1.0)
    requests = SamplingPlan("evaluate", plan, 1, name).requests(shard(PROMPTS, 0, 1))
    return rollout_frame(requests, engine.generate(requests))


def evaluated(samples: pl.DataFrame, method: str, seed: int) -> pl.DataFrame:
    """The evaluation of samples of which those are right whose first token is one of a few."""
    right = pl.col("token_ids").list.first() % 8 == 3
    verdicts = samples.select(
        "prompt_id",
        "sample_index",
        verdict=pl.when(right).then(pl.lit("correct")).otherwise(pl.lit("wrong")),
        correct=right,
        **{name: pl.lit(None, pl.String) for name in ("answer_class", "program_class")},
        reads_table=pl.lit(None, pl.Boolean),
    )
    names = {"method": method, "dataset": "d"}
    numbers = {"seed": pl.lit(seed, pl.Int32), "step": pl.lit(8 * seed, pl.Int32)}
    labels = {name: pl.lit(text) for name, text in names.items()}
    return evaluate(samples, verdicts, ()).with_columns(**labels, **numbers)


def test_the_base_under_another_name_keeps_and_explores_what_chance_alone_gives(engine: Engine) -> None:
    base, again = sampled(engine, "base"), sampled(engine, "again-s1/step8")
    frames = [evaluated(base, "base", 0), evaluated(again, "again", 1), evaluated(base, "repeated", 1)]
    table = keep_explore(study(pl.concat(frames), [K]))
    rates = {row["method"]: row for row in table.iter_rows(named=True)}
    for rate in ("keep", "explore"):
        chance, found = rates[BASE_ITSELF], rates["again"]
        assert 0.2 < chance[rate] < 0.95
        # Half a 95 % interval of the one and of the other.
        noise = (found[f"{rate}_high"] - found[f"{rate}_low"] + chance[f"{rate}_high"] - chance[f"{rate}_low"]) / 2
        assert abs(found[rate] - chance[rate]) < noise
    # With the base's seeds the samples are the base's, and keep is above what chance gives.
    assert rates["repeated"]["keep"] - rates[BASE_ITSELF]["keep"] > 0.05
    repeated = base.join(again, on=["prompt_id", "sample_index"])
    assert (repeated["token_ids"] == repeated["token_ids_right"]).mean() < 0.05
