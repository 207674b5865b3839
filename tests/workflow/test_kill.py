"""After a kill -9 the same command continues and ends in the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import psutil
import pytest
from runs import Workflow, kill, remove

from dphrl.store.files import parts_folder

pytestmark = pytest.mark.workflow

END = ["tables", "figures", "report", "audit"]
SAMPLED = [
    "draws",
    "rollouts",
    "verdicts",
    "policies/grpo-s1",
    "policies/dph_js-s1",
    "states",
    "train",
    "evaluation",
]
SEGMENT = [
    "policies/grpo-s1",
    "states/grpo-s1/step4",
    "states/grpo-s1/step4.json",
    "train/grpo-s1/step4",
    "rollouts/grpo-s1",
    "verdicts/grpo-s1",
    "evaluation/grpo-s1",
]
MOMENTS = {
    # What is removed from a finished run, and the text on the terminal once the job that makes it has started.
    "sampling": ([*SAMPLED, *END], "sample_draw main train presample 0:"),
    "training": ([*SEGMENT, *END], "train_segment grpo 1 4:"),
}


# In `make test-full` only: a minute and a half each. `make test` kills a sampling job, below.
@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", ["snakemake", "stage", "both"])
def test_a_killed_run_ends_in_the_same_bytes(finished: Workflow, pristine: Workflow, moment: str, victim: str) -> None:
    removed, at_work = MOMENTS[moment]
    for name in removed:
        remove(finished.results / name)
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


def test_a_killed_sampling_job_draws_no_finished_part_again(untrained: Workflow, code: Path) -> None:
    requests = code / "policy/requests.py"
    name = "REQUESTS_PER_PART: Final"
    requests.write_text(re.sub(rf"{name} = .*", f"{name} = 16", requests.read_text()))
    run = untrained.configured(engine={"name": "transformers"})
    table = run.results / "draws/main/rollouts/train.presample/0.parquet"
    target = str(table.relative_to(run.folder))
    process = run.start(target)
    # Each part has four of the 24 prompts.
    run.wait_for("sample_draw main train presample 0 (3 of 6):", process)
    kill([psutil.Process(process.pid), *run.jobs()])
    process.wait()
    assert not table.exists()
    said = run.run(target)
    (before,) = re.findall(r"done in .*: (\d+) prompts were drawn before", said)
    assert int(before) in (8, 12, 16, 20)
    assert "presample 0 (2 of 6)" not in said
    assert "presample 0 (6 of 6)" in said
    tokens = pl.read_parquet(run.results / "timings" / table.relative_to(run.results)).filter(part="generate")["tokens"]
    drawn = pl.read_parquet(table).sort("prompt_id")
    assert tokens.to_list() == [drawn["token_ids"].list.len()[4 * int(before) :].sum()]
    assert not parts_folder(table).exists()
    continued = table.read_bytes()
    table.unlink()
    assert "drawn before" not in run.run(target)
    assert table.read_bytes() == continued
