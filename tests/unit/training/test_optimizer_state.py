"""The memory that a save takes; what is saved is in tests/unit/training/test_trainer.py."""

import json
from pathlib import Path

import pytest

from dphrl.policy.ranks import run_ranks

LARGE = Path(__file__).resolve().parents[2] / "support" / "large_state.py"


@pytest.mark.full
def test_saving_and_restoring_takes_no_more_memory_for_a_larger_state(tmp_path: Path) -> None:
    run_ranks(1, [str(LARGE), str(tmp_path), "1024", "6", "23"])
    for found, megabytes in zip(json.loads((tmp_path / "found.json").read_text()), (1081, 4142), strict=True):
        assert found.pop("state") == pytest.approx(megabytes, rel=0.02)
        assert max(found.values()) < 200, found
