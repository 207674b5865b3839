"""Stored rows in each update of the released code (seamoke/DPH-RL at 139a9b2), from its rule of dispatch.

The 256 stored rows follow the 2,048 balanced rollouts (verl/trainer/ppo/ray_trainer.py:1295, 1342). Each rank gets a
contiguous share (verl/protocol.py:705) and cuts it into mini-batches of 64 * 16 / ranks rows
(verl/workers/fsdp_workers.py:172, verl/workers/actor/dp_actor.py:402).
"""

import re
from pathlib import Path

import pytest

ROLLOUTS, STORED, MINI_BATCH = 128 * 16, 256, 64 * 16
PAGE = Path(__file__).resolve().parents[3] / "docs" / "methods.md"
SHARES = {
    1: (0.0, 0.0, 100.0),
    2: (0.0, 12.5, 50.0),
    4: (0.0, 18.8, 25.0),
    8: (9.4, 12.5, 12.5),
    16: (9.4, 12.5, 12.5),
    32: (9.4, 12.5, 12.5),
}
GPUS = sorted(SHARES)


def updates(gpus: int, stored: int = STORED) -> list[list[list[bool]]]:
    """For each update the rows of each rank: whether a row is a stored response."""
    rows = [False] * ROLLOUTS + [True] * stored
    share, mini_batch = len(rows) // gpus, MINI_BATCH // gpus
    ranks = [rows[first : first + share] for first in range(0, len(rows), share)]
    return [[rank[first : first + mini_batch] for rank in ranks] for first in range(0, share, mini_batch)]


@pytest.mark.parametrize("gpus", GPUS)
def test_the_share_of_stored_rows_in_each_update(gpus: int) -> None:
    shares = [100 * sum(map(sum, ranks)) / sum(map(len, ranks)) for ranks in updates(gpus)]
    assert shares == pytest.approx(SHARES[gpus], abs=0.051)


@pytest.mark.parametrize("gpus", GPUS)
def test_stored_rows_make_a_third_update_of_a_quarter_of_the_rows(gpus: int) -> None:
    assert [sum(map(len, ranks)) for ranks in updates(gpus)] == [1024, 1024, 256]
    assert [sum(map(len, ranks)) for ranks in updates(gpus, stored=0)] == [1024, 1024]


@pytest.mark.parametrize("gpus", GPUS)
def test_no_pair_of_forward_kl_has_rows_of_both_kinds(gpus: int) -> None:
    for ranks in updates(gpus):
        for rows in ranks:
            assert all(rows[i] == rows[i + 1] for i in range(0, len(rows), 2))


def _mixed(gpus: int) -> float:
    """Per cent of the stored rows that are in a mini-batch of a rank with rollouts: dynamic batches may mix these."""
    return 100 / STORED * sum(sum(rows) for ranks in updates(gpus) for rows in ranks if not all(rows))


def test_the_page_has_these_numbers() -> None:
    cells = re.findall(r"^\| ([\d, ]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    stated = {int(gpus): tuple(map(float, row)) for names, *row in cells for gpus in names.split(", ")}
    assert stated == {gpus: (*SHARES[gpus], pytest.approx(_mixed(gpus), abs=0.051)) for gpus in GPUS}
