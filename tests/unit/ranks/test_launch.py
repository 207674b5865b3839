"""What a rank is started with; ranks that run are in tests/workflow/test_ranks.py."""

import pytest
import torch

from dphrl.ranks.launch import threads_of_rank


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
