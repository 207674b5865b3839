"""What is on the GPU at once: as moves between devices, which two ranks make on a CPU too."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_models import write_tiny_policy

from dphrl.training.launch import run_ranks

PLACEMENT = Path(__file__).resolve().parents[2] / "support" / "placement.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("placement")
    write_tiny_policy(folder, num_hidden_layers=4, hidden_size=256, intermediate_size=512)
    run_ranks(2, [str(PLACEMENT), str(folder), str(folder), "1", "3"])
    one, other = (json.loads((folder / f"{number}.json").read_text()) for number in range(2))
    # The first broadcasts, the second receives.
    assert {**one["3"], "making": 0} == {**other["3"], "making": 0}
    return other


def test_with_zero_3_no_more_than_two_weights_are_whole_while_the_trainer_is_made(found: dict[str, Any]) -> None:
    most, kept = found["3"]["making"]
    assert most <= 2 * found["3"]["largest"]
    assert kept == 0
    # The policy, and the reference model of a method that needs one.
    assert found["3"]["parts"] == [found["3"]["model"] / 2] * 2
    assert found["3"]["same"]


def test_without_it_the_reference_model_is_on_the_gpu_only_while_it_is_used(found: dict[str, Any]) -> None:
    matrices = 0.99 * found["1"]["model"]
    most, kept = found["1"]["making"]
    assert matrices < most <= found["1"]["model"]
    assert kept == 0  # DeepSpeed copies the weights that it trains into one flat tensor.
    assert found["1"]["using"][0] > matrices
    assert found["1"]["using"][1] == 0
    assert found["1"]["same"]
