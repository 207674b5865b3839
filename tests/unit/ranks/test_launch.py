"""What a rank is started with; ranks that run are in tests/workflow/test_ranks.py."""

import os

import pytest
import torch

from dphrl.ranks.launch import cores_of_rank, threads_of_rank


@pytest.mark.parametrize(
    ("gpu", "rule", "job", "ranks", "threads"),
    [
        (True, 8, "96", 8, 12),
        (True, 8, "4", 8, 1),
        (True, 64, None, 8, 8),
        # On a CPU more threads would add up in another order.
        (False, 8, "96", 8, 1),
        (False, 2, None, 3, 1),
    ],
)
def test_a_rank_has_its_share_of_the_cores(
    gpu: bool, rule: int, job: str | None, ranks: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: rule)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    if job is not None:
        monkeypatch.setenv("SLURM_CPUS_ON_NODE", job)
    assert threads_of_rank(ranks) == threads


@pytest.mark.parametrize(
    ("here", "of_task", "ranks", "nodes", "cores"),
    [(96, None, 8, 1, 12), (4, None, 8, 1, 1), (96, "6", 8, 1, 12), (96, "6", 16, 2, 6), (96, None, 16, 2, 1)],
)
def test_the_workers_of_a_rank_share_its_cores(
    here: int, of_task: str | None, ranks: int, nodes: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(here)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    if of_task is not None:
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", of_task)
    assert cores_of_rank(ranks, nodes) == cores
