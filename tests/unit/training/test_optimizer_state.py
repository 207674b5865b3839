"""The memory that a save takes; what is saved is in tests/unit/training/test_trainer.py."""

import json
from pathlib import Path

import pytest

from dphrl.ranks.launch import run_ranks

LARGE = Path(__file__).resolve().parents[2] / "support" / "large_state.py"


@pytest.mark.parametrize(
    ("width", "layers", "megabytes", "most"),
    [
        (256, (5, 20), (56, 225), 48),
        pytest.param(1024, (6, 23), (1081, 4142), 200, marks=pytest.mark.full),
    ],
)
def test_saving_and_restoring_takes_no_more_memory_for_a_larger_state(
    width: int, layers: tuple[int, int], megabytes: tuple[int, int], most: int, tmp_path: Path
) -> None:
    run_ranks(1, [str(LARGE), str(tmp_path), str(width), *map(str, layers)])
    for found, size in zip(json.loads((tmp_path / "found.json").read_text()), megabytes, strict=True):
        assert found.pop("state") == pytest.approx(size, rel=0.02)
        assert max(found.values()) < most, found
