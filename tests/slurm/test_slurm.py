"""The workflow on a real SLURM: stages through sbatch, a training over two nodes, walltime, and a job that fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from cluster import Cluster
from runs import ROOT
from submitted import Submitted

from dphrl.report.audit import audit_run

pytestmark = pytest.mark.slurm

RANKS = """
import sys
from dphrl.policy.ranks import Nodes, run_ranks
run_ranks(4, ["-c", sys.argv[1]], Nodes(2))
"""
SUM = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
number = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(number)
print(dist.get_rank(), os.environ["LOCAL_RANK"], os.environ["SLURMD_NODENAME"], int(number), flush=True)
dist.destroy_process_group()
"""
LOST = """
import os
import time
if os.environ["RANK"] == "3":
    os._exit(7)
time.sleep(600)
"""


def _job_on_two_nodes(cluster: Cluster, folder: Path, program: str) -> tuple[int, str]:
    """The exit status of a job of four tasks whose first process runs `RANKS`, and what it printed."""
    script, output = folder / "job.sh", folder / "output"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "$RANKS" "$PROGRAM"\n')
    environment = cluster.environment | {"PYTHONPATH": str(ROOT / "workflow_scripts")}
    environment |= {"RANKS": RANKS, "PROGRAM": program}
    command = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=2", f"--output={output}", str(script)]
    done = subprocess.run(command, env=environment, cwd=folder, check=False, timeout=120)
    return done.returncode, output.read_text()


def test_ranks_of_two_nodes_find_each_other(cluster: Cluster, tmp_path: Path) -> None:
    status, output = _job_on_two_nodes(cluster, tmp_path, SUM)
    assert status == 0, output
    assert sorted(line for line in output.splitlines() if "node" in line) == [
        "0 0 node1 10",
        "1 1 node1 10",
        "2 0 node2 10",
        "3 1 node2 10",
    ]


def test_a_rank_that_is_lost_on_another_node_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    status, output = _job_on_two_nodes(cluster, tmp_path, LOST)
    assert status != 0
    assert "node2: task 3: Exited with exit code 7" in output
    assert "RankError: srun ended with status" in output


@pytest.fixture(scope="session")
def submitted(workflow: Submitted) -> Submitted:
    """The tiny workflow, run through sbatch; one of its jobs was killed once."""
    process = workflow.start()
    _wait_for_a_job_of(workflow, "sample_draw", process)[0].send_signal(signal.SIGKILL)
    assert process.wait() == 0, workflow.output()[-6000:]
    return workflow


def _wait_for_a_job_of(workflow: Submitted, rule: str, process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of the first job of a rule that runs."""
    logs = workflow.folder / ".snakemake/slurm_logs" / f"rule_{rule}"
    deadline = time.monotonic() + 400
    while not logs.exists() or not (found := workflow.jobs()):
        assert process.poll() is None, workflow.output()[-6000:]
        assert time.monotonic() < deadline, workflow.output()[-6000:]
        time.sleep(0.1)
    return found


def test_the_workflow_runs_through_sbatch_and_a_killed_job_is_tried_again(submitted: Submitted) -> None:
    assert "Trying to restart job" in submitted.output()
    assert audit_run(submitted.results).faults == {}
    assert "Nothing to be done" in submitted.run()


def test_a_job_above_its_memory_is_killed_and_tried_again_with_more(submitted: Submitted) -> None:
    logs = (submitted.folder / ".snakemake/slurm_logs/rule_tensorise").rglob("*.log")
    assert any("exceeded memory limit" in log.read_text() for log in logs), submitted.output()[-6000:]


def test_the_reference_and_a_training_have_a_rank_on_each_node(submitted: Submitted) -> None:
    for name in ("draws/main/reference", "train/dph_js-s1/step2", "train/dph_js-s1/step4"):
        log = (submitted.results / f"logs/{name}.log").read_text()
        assert {"rank 0 of 2 on node1", "rank 1 of 2 on node2"} <= set(log.splitlines())


def test_a_segment_over_its_walltime_is_tried_again_and_gives_the_same_bytes(submitted: Submitted) -> None:
    before = _set_aside(submitted, "walltime")
    process = replace(submitted, walltime="1 if attempt == 1 else 60").start("--", "train")
    for job in _wait_for_a_job_of(submitted, "train_segment", process):
        job.suspend()
    assert process.wait() == 0, submitted.output()[-6000:]
    assert "TIMEOUT" in submitted.output()
    assert _bytes(submitted) == before


def test_a_training_on_one_node_with_two_gpus_gives_the_same_bytes(submitted: Submitted) -> None:
    before = _set_aside(submitted, "one-node")
    replace(submitted, nodes=1).run("--", "train")
    log = (submitted.results / "logs/train/dph_js-s1/step4.log").read_text()
    (node,) = {line.split()[-1] for line in log.splitlines() if line.startswith("rank ")}
    assert node in ("node1", "node2")
    assert submitted.cluster is not None
    *_, job = submitted.cluster.ask("scontrol", "show", "job", "--oneliner").splitlines()
    assert {"NumNodes=1", "TresPerJob=gres:gpu:2"} <= set(job.split())
    assert _bytes(submitted) == before


def _bytes(submitted: Submitted) -> list[bytes]:
    files = ("policies/dph_js-s1/step4/model.safetensors", "states/dph_js-s1/step4/optimizer-001.safetensors")
    return [(submitted.results / file).read_bytes() for file in files]


def _set_aside(submitted: Submitted, name: str) -> list[bytes]:
    """Move the last segment of the training away, and return what it wrote."""
    before = _bytes(submitted)
    for kind in ("policies", "states"):
        for file in ("step4", "step4.json"):
            (submitted.results / kind / "dph_js-s1" / file).rename(submitted.folder / f"{name}-{kind}-{file}")
    return before
