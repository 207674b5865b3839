"""What is on the GPU at once: as moves between devices, which two ranks make on a CPU too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from published import LLAMA_8B as PUBLISHED
from tiny_models import write_tiny_policy

from dphrl.plan.memory import ModelShape, Setting, phases
from dphrl.ranks.launch import run_ranks

SUPPORT = Path(__file__).resolve().parents[2] / "support"
LLAMA_8B = {name: size for name, size in PUBLISHED.items() if name != "model_type"}
LLAMA_8B |= {"num_hidden_layers": 2, "tie_word_embeddings": False}
# The shape of Qwen2.5-32B, without its biases.
LLAMA_32B = LLAMA_8B | {"vocab_size": 152064, "hidden_size": 5120, "num_attention_heads": 40}
LLAMA_32B |= {"intermediate_size": 27648}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("placement")
    write_tiny_policy(folder, num_hidden_layers=4, hidden_size=256, intermediate_size=512)
    run_ranks(2, [str(SUPPORT / "placement.py"), str(folder), str(folder), "1", "3"])
    one, other = (json.loads((folder / f"{number}.json").read_text()) for number in range(2))
    # The first broadcasts, the second receives.
    assert {**one["3"], "making": 0} == {**other["3"], "making": 0}
    return other


@pytest.mark.parametrize(
    ("ranks", "shape"),
    [
        (8, LLAMA_8B),
        pytest.param(8, LLAMA_8B | {"num_hidden_layers": 32}, marks=pytest.mark.full),
        pytest.param(32, LLAMA_32B | {"num_hidden_layers": 64}, marks=pytest.mark.full),
    ],
)
def test_a_model_of_real_size_is_divided_with_one_whole_weight_at_a_time(ranks: int, shape: dict[str, Any]) -> None:
    """In bytes, of tensors without data; each size is a multiple of the number of ranks."""
    program = [sys.executable, str(SUPPORT / "partitioned_start.py"), str(ranks), json.dumps(shape)]
    found = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1])
    assert found["most"] == found["model"] / ranks + found["largest"]
    assert found["kept"] == found["model"] / ranks + found["buffers"]
    start = phases(ModelShape.from_config({"model_type": "llama", **shape}), Setting(ranks=ranks, zero_stage=3))[0]
    assert start.parts["weights"] + start.parts["largest weight"] == found["most"]


@pytest.mark.full
def test_with_zero_3_no_more_than_two_weights_are_whole_while_the_trainer_is_made(found: dict[str, Any]) -> None:
    most, kept = found["3"]["making"]
    # The second is the one before, which gloo has not let go of.
    assert most <= 2 * found["3"]["largest"]
    assert kept == 0
    # The policy, and the reference model of a method that needs one.
    assert found["3"]["parts"] == [found["3"]["model"] / 2] * 2
    assert found["3"]["same"]


@pytest.mark.full
def test_without_it_the_reference_model_is_on_the_gpu_only_while_it_is_used(found: dict[str, Any]) -> None:
    matrices = 0.99 * found["1"]["model"]
    most, kept = found["1"]["making"]
    assert matrices < most <= found["1"]["model"]
    assert kept == 0  # DeepSpeed copies the weights that it trains into one flat tensor.
    assert found["1"]["using"][0] > matrices
    assert found["1"]["using"][1] == 0
    assert found["1"]["same"]
