"""What a cluster needs: samples that do not depend on the number of jobs, and files that runs share."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from engine_suite import MAX_MODEL_LEN, Policy
from runs import TINY, Workflow

from dphrl.config.blocks.sampling import PlanConfig
from dphrl.ranks.launch import Nodes, run_ranks
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


SHARED = ("policies/base", "prompts", "draws/main/rollouts/train.presample", "draws/main/reference")


@pytest.mark.full
@pytest.mark.workflow
def test_a_run_with_other_methods_takes_base_prompts_samples_and_reference_from_the_cache(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(cache))
    config = yaml.safe_load(TINY.read_text())
    config["toy"]["threads"] = 1
    config["engine"]["name"] = "transformers"
    # Two datasets of one schema, and two shards: jobs that differ in their wildcards only.
    config["evaluate"]["datasets"] = ["in_domain"]
    runs, ran = [], []
    for method in ("grpo", "dph_js"):
        folder = tmp_path / method
        folder.mkdir()
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump({**config, "methods": {method: config["methods"][method]}}))
        runs.append(Workflow(project, folder, path))
        runs[-1].run("--cache", "--", "reference", "results/tiny/prompts/in_domain.parquet")
        # A job that is taken from the cache runs no script, which would leave a log.
        logs = "".join(path.read_text(errors="replace") for path in runs[-1].results.rglob("logs/**/*.log"))
        ran.append(set(re.findall(r"^(\w+).*: done in", logs, re.MULTILINE)))
    cached = {"train_base", "prepare_prompts", "sample_draw", "tensorise"}
    assert ran[0] - ran[1] == cached

    first, second = runs
    assert first.digests() == second.digests()
    for part in SHARED:
        # Of a folder, its files are links.
        files = [path for path in (second.results / part).rglob("[!.]*") if path.is_file()]
        assert all(path.is_symlink() for path in files), files
        assert len({path.resolve() for path in files}) == len(files) > 0
    timings = list((second.results / "timings").rglob("*.parquet"))
    assert timings
    assert "Nothing to be done" in second.run("--cache", "--", "reference")
    assert "Nothing to be done" in second.run("reference")


def test_ranks_that_nodes_cannot_share_evenly_are_refused() -> None:
    nodes = Nodes.of({"nodes": 2, "mpi": "srun --mpi=none"})
    assert nodes == Nodes(2, "srun --mpi=none")
    with pytest.raises(ValueError, match="3 ranks on 2 nodes"):
        run_ranks(3, ["-c", ""], nodes)
