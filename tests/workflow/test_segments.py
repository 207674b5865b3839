"""A training of several segments: nothing is trained twice, whatever is asked for first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from runs import Workflow

pytestmark = [pytest.mark.workflow, pytest.mark.full]

SHORT = {"rollout_on": "all", "eps_high": 0.2}


def trained_by(finished: Workflow, segments: int, *names: str) -> Workflow:
    """The finished run with other methods, each with segments of one step; nothing of these is trained."""
    config = yaml.safe_load(finished.config.read_text())
    config["methods"] = {name: SHORT for name in names}
    config["train"] |= {"steps": segments, "segment_steps": 1, "eval_every": segments}
    return Workflow.of(finished.project, finished.folder, config)


def kept(run: Workflow, kind: str, name: str) -> set[str]:
    return {path.name for path in (run.results / kind / f"{name}-s1").iterdir()}


def test_one_evaluation_first_and_everything_later_trains_nothing_twice(finished: Workflow) -> None:
    segments = 3
    run = trained_by(finished, segments, "first", "second")
    run.run(f"results/tiny/evaluation/first-s1/step{segments}/in_domain.parquet")
    assert run.stages()["train_segment"] == segments
    run.run()
    assert run.stages()["train_segment"] == segments, "those of the second method alone"
    last = {f"step{segments}", f"step{segments}.json"}
    assert all(kept(run, kind, name) == last for kind in ("states", "policies") for name in ("first", "second"))
    assert "Nothing to be done" in run.run()


def test_each_job_sees_its_declared_inputs_alone(project: Path, finished: Workflow, tmp_path: Path) -> None:
    """A shadow folder has links to the inputs of its job, and gives back its outputs."""
    folder = tmp_path / "shadow"
    folder.mkdir()
    rules = {path: path.read_text() for path in (project / "rules").glob("*.smk")}
    try:
        for path, text in rules.items():
            path.write_text(re.sub(r"^( +)script:$", r'\1shadow: "minimal"\n\1script:', text, flags=re.MULTILINE))
        shadow = Workflow(project, folder, finished.config)
        shadow.run()
    finally:
        for path, text in rules.items():
            path.write_text(text)
    assert shadow.stages()["audit"] == 1
    ours, theirs = shadow.digests(), finished.digests()
    assert {name for name in ours if ours[name] != theirs[name]} == set()
