"""The table of docs/methods.md on stored rows in each update of the released code (seamoke/DPH-RL at 139a9b2).

The 256 stored rows follow the 2,048 balanced rollouts (verl/trainer/ppo/ray_trainer.py:1295, 1342). Each rank gets a
contiguous share (verl/protocol.py:705) and cuts it into mini-batches of 64 * 16 / ranks rows
(verl/workers/fsdp_workers.py:172, verl/workers/actor/dp_actor.py:402).
"""

import re
from pathlib import Path

import pytest

ROLLOUTS, STORED, MINI_BATCH = 128 * 16, 256, 64 * 16
PAGE = Path(__file__).resolve().parents[3] / "docs" / "methods.md"


def updates(gpus: int) -> list[list[list[bool]]]:
    """For each update the rows of each rank: whether a row is a stored response."""
    rows = [False] * ROLLOUTS + [True] * STORED
    share, mini_batch = len(rows) // gpus, MINI_BATCH // gpus
    ranks = [rows[first : first + share] for first in range(0, len(rows), share)]
    return [[rank[first : first + mini_batch] for rank in ranks] for first in range(0, share, mini_batch)]


def test_the_page_has_the_shares_that_follow_from_the_rule() -> None:
    cells = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    assert len(cells) == 6
    for gpus, *stated in cells:
        of_updates = updates(int(gpus))
        shares = [100 * sum(map(sum, ranks)) / sum(map(len, ranks)) for ranks in of_updates]
        # Stored rows in a mini-batch of a rank that has rollouts too.
        mixed = 100 / STORED * sum(sum(rows) for ranks in of_updates for rows in ranks if not all(rows))
        assert [*map(float, stated)] == pytest.approx([*shares, mixed], abs=0.051)
