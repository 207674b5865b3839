"""Training in bfloat16: whole segments with each engine, a resume, and layers that two GPUs divide.

Needs what the workflow needs but Snakemake: torch, transformers, deepspeed, polars, pydantic; vLLM for its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

for _library in ("deepspeed", "polars", "pydantic"):
    pytest.importorskip(_library)

import spread_layers
from safetensors.torch import load_file
from segment_jobs import first_segment, following, into
from spread_layers import check_alike
from tiny_models import HEADS_OF_128, KINDS, write_tiny_policy
from tiny_training import make_trainer, process_group, recorded_rows, weights_of, write_moved_policy
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.logprobs import load_model
from dphrl.policy.ranks import run_on_ranks, run_ranks
from dphrl.store.catalogue import SCHEMAS
from dphrl.training.job import SegmentJob

pytestmark = pytest.mark.gpu

# Of log-probs in bfloat16, in nats; a wrong bias, head or position differs by nats.
ROUNDING = 0.3


def _run(job: SegmentJob) -> dict[str, list[float]]:
    """Run a segment in a process, which may have one vLLM engine only; its metrics by name."""
    folder = Path(job.policy_out).parent
    folder.mkdir()
    answer = run_on_ranks(job, 1, folder)
    metrics = SCHEMAS["metrics"].frame(answer["metrics"])
    assert metrics["step"].unique().sort().to_list() == [job.first, job.last]
    assert {part for part, _, _ in answer["timings"]} >= {"start", "generate", "train", "push"}
    assert {name for name, _ in answer["digests"].items()} == {"policy", "state"}
    return dict(metrics.group_by("metric").agg("value").iter_rows())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_two_segments_train_in_bfloat16(engine: str, kind: str, tmp_path: Path) -> None:
    """Push, digests, canary, generation, sleep, update and probes; then the same from what was saved."""
    pytest.importorskip(engine)
    start = first_segment(tmp_path, "bfloat16", kind=kind, **HEADS_OF_128)
    first = into(start, tmp_path / "first", {"ranks": 1}, engine={"name": engine})
    second = into(following(first), tmp_path / "second")
    for job in (first, second):
        metrics = _run(job)
        print(job.label, {name: metrics[name] for name in ("canary_gap", "sampler_gap_max", "grad_norm")})
        assert max(metrics["canary_gap"]) < ROUNDING
        assert max(metrics["sampler_gap_max"]) < ROUNDING
        assert all(torch.tensor(metrics[name]).isfinite().all() for name in ("policy_loss", "divergence", "entropy"))
        assert metrics["skipped_updates"] == [0, 0]
    (state,) = Path(second.state_out).glob("*.safetensors")
    # Two updates in each of four steps: the second segment has counted on.
    assert load_file(state)["step"] == 8
    base, between, policy = (load_model(Path(job.policy), "bfloat16") for job in (first, second, following(second)))
    for one, other in ((base, between), (between, policy)):
        assert all(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


_LR = 1e-3


def _distance(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Mean of the absolute differences of the weights."""
    assert ours.keys() == theirs.keys()
    numbers = sum(weight.numel() for weight in ours.values())
    return sum(float((weight.float() - theirs[name].float()).abs().sum()) for name, weight in ours.items()) / numbers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", [1, 3])
@process_group()
def test_a_resumed_training_takes_the_step_of_one_that_went_on(kind: str, stage: int, tmp_path: Path) -> None:
    """It needs the saved moments."""
    base, moved, method = tmp_path / "base", tmp_path / "moved", MethodConfig(divergence="js", eta=0.5)
    write_tiny_policy(base, kind=kind, **HEADS_OF_128)
    write_moved_policy(base, moved)
    examples = recorded_rows(moved, base)
    trainer = make_trainer(moved, method, dtype="bfloat16", zero_stage=stage)
    trainer.update(examples, _LR)
    trainer.save_state(tmp_path / "state")
    trainer.save_policy(tmp_path / "policy")
    before = weights_of(trainer)
    resumed, fresh = (
        make_trainer(tmp_path / "policy", method, state=state, dtype="bfloat16", zero_stage=stage)
        for state in (tmp_path / "state", None)
    )
    assert all(weight.equal(before[name]) for name, weight in resumed.named_weights())
    expected, found, _ = (each.update(examples[:9], _LR).grad_norm for each in (trainer, resumed, fresh))
    # Half a per cent: sums of a gradient come in another order.
    assert abs(found / expected - 1) < 5e-3
    after = weights_of(trainer)
    moved = _distance(after, before)
    assert moved > 0
    assert _distance(weights_of(resumed), after) < 0.05 * moved
    assert _distance(weights_of(fresh), after) > 0.2 * moved


SETTINGS = ["3-plain-on-float32-all", "3-checkpointing-on-bfloat16-all", "3-checkpointing-off-bfloat16-lora"]


def test_layers_that_two_gpus_divide_are_trained_like_those_of_one(device: str, tmp_path: Path) -> None:
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("one GPU: ZeRO-3 over two is not checked")
    whole = {setting: f"0-plain-off-{'-'.join(setting.split('-')[3:])}" for setting in SETTINGS}
    for ranks, settings in ((1, whole.values()), (2, SETTINGS)):
        run_ranks(ranks, [str(spread_layers.__file__), str(tmp_path), "300", *settings])
    for setting, alone in whole.items():
        check_alike(tmp_path, f"2-{setting}", f"1-{alone}")
