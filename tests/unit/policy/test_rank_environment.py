"""What a rank is started with; ranks that run are in tests/unit/policy/test_ranks.py."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.policy import ranks as launch
from dphrl.policy.ranks import Nodes, RankJob, cores_of_rank, run_ranks, threads_of_rank


@pytest.mark.parametrize(
    ("gpus", "rule", "job", "ranks", "threads"),
    [
        (8, 8, "96", 8, 12),
        (8, 64, None, 8, 8),
        # Without SLURM, on a machine with 40 cores.
        (8, 8, None, 8, 5),
        (1, 1, None, 1, 40),
        # On a CPU more threads would add up in another order.
        (0, 8, "96", 8, 1),
        (0, 2, None, 3, 1),
    ],
)
def test_a_rank_has_its_share_of_the_cores(
    gpus: int, rule: int, job: str | None, ranks: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(gpus))):
        (tmp_path / name).touch()
    monkeypatch.setattr(launch, "_DEVICES", tmp_path)
    monkeypatch.setattr(torch, "get_num_threads", lambda: rule)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(40)))
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    if job is not None:
        monkeypatch.setenv("SLURM_CPUS_ON_NODE", job)
    assert threads_of_rank(ranks) == threads


def test_ranks_compute_with_their_share_of_the_threads_that_snakemake_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    program = "import os, sys; open(sys.argv[1] + os.environ['RANK'], 'w').write(os.environ['MKL_NUM_THREADS'])"
    run_ranks(2, ["-c", program, f"{tmp_path}/"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "1", "1": "1"}


@pytest.mark.parametrize(
    ("here", "of_task", "ranks", "nodes", "cores"),
    [(96, None, 8, 1, 12), (4, None, 8, 1, 1), (96, "6", 16, 2, 6)],
)
def test_the_workers_of_a_rank_share_its_cores(
    here: int, of_task: str | None, ranks: int, nodes: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(here)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    if of_task is not None:
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", of_task)
    assert cores_of_rank(ranks, nodes) == cores


class Job(RankJob):
    after_failure = ""
    options: dict[str, Any]

    def work(self) -> None:
        """Nothing."""


def test_a_rank_receives_the_job_that_was_sent() -> None:
    options = {"limit": math.inf, "least": -math.inf, "share": 0.1, "names": ["é", None, True], "most": 2**60}
    job = Job(hardware=HardwareConfig(ranks=2), label="test", options=options)
    assert Job.model_validate_json(job.model_dump_json()) == job


def test_ranks_that_nodes_cannot_share_evenly_are_refused() -> None:
    nodes = Nodes.of({"nodes": 2, "mpi": "srun --mpi=none"})
    assert nodes == Nodes(2, "srun --mpi=none")
    with pytest.raises(ValueError, match="3 ranks on 2 nodes"):
        run_ranks(3, ["-c", ""], nodes)
