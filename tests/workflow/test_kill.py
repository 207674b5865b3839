"""After a kill -9 the same command continues and ends in the same bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from runs import Workflow, kill

pytestmark = pytest.mark.workflow

END = ["tables", "figures", "report", "audit"]
SAMPLED = [
    "rollouts",
    "verdicts",
    "partition",
    "reference",
    "policies/grpo-s1",
    "policies/dph_js-s1",
    "train",
    "evaluation",
]
SEGMENT = [
    "policies/grpo-s1/step4",
    "train/grpo-s1/step4",
    "rollouts/grpo-s1",
    "verdicts/grpo-s1",
    "evaluation/grpo-s1",
]
MOMENTS = {
    # What is removed from a finished run, and the text on the terminal once the job that makes it has started.
    "sampling": ([*SAMPLED, *END], "sample base train presample 0:"),
    "training": ([*SEGMENT, *END], "train_segment grpo 1 4:"),
}
VICTIMS = ("snakemake", "stage", "both")
# The others run in `make test-full`.
QUICK = {("sampling", "both")}
CASES = [
    pytest.param(moment, victim, marks=[] if (moment, victim) in QUICK else pytest.mark.full)
    for moment in MOMENTS
    for victim in VICTIMS
]


@pytest.mark.parametrize(("moment", "victim"), CASES)
def test_a_killed_run_ends_in_the_same_bytes(finished: Workflow, pristine: Workflow, moment: str, victim: str) -> None:
    removed, at_work = MOMENTS[moment]
    for name in removed:
        shutil.rmtree(finished.results / name)
    process = finished.start()
    finished.wait_for(at_work, process)
    jobs, snakemake = finished.jobs(), psutil.Process(process.pid)
    assert jobs
    kill({"snakemake": [snakemake], "stage": jobs, "both": [snakemake, *jobs]}[victim])
    assert process.wait() != 0
    finished.run()
    assert finished.digests() == pristine.digests()
    assert not list(Path(finished.results).rglob(".*.tmp"))
    assert "Nothing to be done" in finished.run()
    shutil.rmtree(finished.folder)


def test_the_launcher_does_not_disturb_a_live_run(finished: Workflow) -> None:
    (finished.results / "report/index.html").unlink()
    process = finished.start()
    finished.wait_for("Building DAG", process)
    second = subprocess.run(finished.command(), cwd=finished.project, capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert f"Snakemake (process {process.pid}) is at work" in second.stderr
    assert process.wait() == 0
