"""At the first step of a training the stored log-probs are those of the policy that it starts from, or it stops."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from segment_jobs import first_segment, into
from tiny_models import write_tiny_policy
from tiny_training import make_trainer, write_moved_policy, write_reference

from dphrl.config.blocks.training import MethodConfig
from dphrl.training.canary import ReferenceMismatchError, check_reference
from dphrl.training.job import SegmentJob, train_segment

pytestmark = pytest.mark.usefixtures("one_rank")

JS = MethodConfig(divergence="js")


@pytest.fixture
def start(tmp_path: Path) -> SegmentJob:
    """The job of a training's first step, on one rank with the engine of transformers."""
    return into(first_segment(tmp_path).model_copy(update={"last": 1}), tmp_path, {"ranks": 1})


@pytest.mark.parametrize("value", [0.01, float("nan")])
def test_damaged_log_probs_stop_the_run(start: SegmentJob, value: float) -> None:
    """Before any update; the message names the policy and the stored log-probs."""
    tensors = load_file(str(start.reference))
    tensors["logprobs"][0] += value
    save_file(tensors, str(start.reference))
    with pytest.raises(ReferenceMismatchError, match="restore the policy, or delete this file") as stopped:
        train_segment(start)
    assert start.policy in str(stopped.value)
    assert str(start.reference) in str(stopped.value)
    assert not [*Path(start.policy_out).iterdir()]


def test_the_policy_whose_log_probs_are_stored_passes_and_a_later_segment_starts_away_from_it(
    start: SegmentJob, tmp_path: Path
) -> None:
    assert len(train_segment(start).metrics.filter(metric="divergence")) == 1
    later = start.model_copy(update={"policy": start.policy_out, "state": start.state_out, "first": 2, "last": 2})
    assert len(train_segment(into(later, tmp_path / "later")).metrics.filter(metric="divergence")) == 1


def test_in_bfloat16_the_tolerance_is_three_times_the_mismatch_of_the_engine(tmp_path: Path) -> None:
    write_tiny_policy(tmp_path / "base")
    responses = write_reference(tmp_path / "base", tmp_path)
    moved = write_moved_policy(tmp_path / "base", tmp_path / "moved")
    trainer = make_trainer(moved, JS, dtype="bfloat16")
    gap = check_reference(trainer, responses, moved, 1e9)
    assert gap > 0.1
    assert check_reference(trainer, responses, moved, 0.34 * gap) == gap
    with pytest.raises(ReferenceMismatchError):
        check_reference(trainer, responses, moved, 0.33 * gap)
    # Rounding alone is below the smallest tolerance.
    assert 0 < check_reference(make_trainer(tmp_path / "base", JS, dtype="bfloat16"), responses, moved, 0.0) < 1e-2
