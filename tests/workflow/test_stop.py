"""A training that `train.stop` ends: later steps are its policy, and a kill changes no byte."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml
from runs import TINY, Workflow, remove

from dphrl.store.manifest import manifest_digest, read_manifest

pytestmark = [pytest.mark.workflow, pytest.mark.full]


def test_a_training_that_lost_its_coverage_ends_and_its_later_steps_cost_no_training(
    project: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load(TINY.read_text())
    config |= {"methods": {"grpo": {"rollout_on": "all"}}, "engine": {**config["engine"], "name": "transformers"}}
    config["evaluate"]["datasets"] = ["in_domain"]
    # The rate ruins the policy in a few steps.
    config["train"] |= {"steps": 15, "segment_steps": 3, "eval_every": [9, 15], "keep_state": "all", "lr": 0.05}
    config["train"]["stop"] = {"coverage_below": 0.01}
    run = Workflow.of(project, tmp_path, config)
    process = run.start()
    run.wait_for("train_segment grpo 1 9:", process, seconds=900)
    run.kill(process)
    run.run()
    training = pl.read_parquet(run.results / "tables/training.parquet")
    last = training["step"].max()
    assert last in (8, 9)
    policies = [read_manifest(run.results / f"policies/grpo-s1/step{step}.json") for step in (6, 9, 12, 15)]
    *others, end = map(manifest_digest, policies)
    assert [digest == end for digest in others] == [False, True, True]
    seconds = [pl.read_parquet(run.results / f"timings/train/grpo-s1/step{step}.parquet") for step in (9, 15)]
    assert "generate" in seconds[0]["part"]
    assert "generate" not in seconds[1]["part"]
    assert f"after step {last} of 15" in (run.results / "report/index.html").read_text()
    assert f"{last} steps of 4 prompts" in (run.results / "cards/grpo-s1/step15.md").read_text()
    before = run.digests()
    for step in (9, 12, 15):
        remove(run.results / f"policies/grpo-s1/step{step}")
        remove(run.results / f"policies/grpo-s1/step{step}.json")
    run.run("results/tiny/policies/grpo-s1/step15.json")
    assert run.stages()["train_segment"] == 3
    assert run.digests() == before
