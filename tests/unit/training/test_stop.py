"""The end of a training by its coverage: the rule, the segment that it ends, and those after it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from segment_jobs import first_segment
from tiny_training import (
    ENGINE,
    HARDWARE,
    equal,
    make_segment,
    make_trainer,
    online_prompts,
    weights_of,
)

from dphrl.config.blocks.training import MethodConfig, StopConfig
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.manifest import manifest_digest, read_manifest, verified_manifest, write_manifest
from dphrl.store.parquet import write_table
from dphrl.training.job import train_segment
from dphrl.training.schedule import WINDOW, ends
from dphrl.training.segment import Segment
from dphrl.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_rank")

GRPO = MethodConfig(rollout_on="all")


def rows(gaps: list[float], error: float = 0.0) -> list[tuple[int, str, float]]:
    """The metrics of steps with these coverage gaps, in key order."""
    return [
        (step, *value)
        for step, gap in enumerate(gaps, 1)
        for value in (("coverage_gap", gap), ("coverage_gap_error", error), ("reward", 1.0))
    ]


def test_a_training_ends_where_eight_steps_and_twice_their_error_are_below() -> None:
    lost = [-0.25] * WINDOW
    assert ends(rows(lost), 0.2)
    assert not ends(rows(lost), None)
    assert not ends(rows(lost), 0.25), "below, not at"
    assert not ends(rows(lost[1:]), 0.2), "seven steps"
    # Eight errors e have the mean error e / sqrt(8); here twice that is 0.04 and 0.06.
    assert ends(rows(lost, 0.02 * 8**0.5), 0.2)
    assert not ends(rows(lost, 0.03 * 8**0.5), 0.2)
    # Only the last eight count.
    assert ends(rows([1.0, *lost]), 0.2)
    assert not ends(rows([*lost, 0.2]), 0.2)


def test_the_error_keeps_trainings_that_lost_less_and_ends_those_that_lost_more() -> None:
    """16 prompts a step with a deviation of 0.4 each, 80 steps, coverage_below 0.1; in per cent of 400 trainings."""
    draw = np.random.default_rng(1)

    def ended(gap: float, error: float) -> float:
        found = draw.normal(gap, 0.1, size=(400, 80)).tolist()
        return sum(any(ends(rows(g[i - WINDOW : i], error), 0.1) for i in range(WINDOW, 81)) for g in found) / 4

    kept, lost = (ended(gap, 0.1) for gap in (-0.05, -0.2))
    kept_without, lost_without = (ended(gap, 0.0) for gap in (-0.05, -0.2))
    assert kept < 5 < 50 < kept_without
    assert lost > 95
    assert lost_without > 95


def segment(base: Path, before: list[tuple[int, str, float]]) -> tuple[Trainer, Segment]:
    trainer = make_trainer(base, GRPO, base, stop={"coverage_below": 0.2})
    prompts = [replace(prompt, base_right=8, base_n=8) for prompt in online_prompts(base)]
    engine = TransformersEngine(base, ENGINE, HARDWARE)
    return trainer, make_segment(trainer, engine, base, prompts=prompts, earlier=before)


def test_a_segment_ends_after_the_step_that_ends_the_training(base: Path) -> None:
    """Seven steps of the segments before count, and the policy is that of the last step."""
    before = rows([-1.0] * (WINDOW - 1))
    trainer, ended = segment(base, before)
    assert ended.run(8, 12, "test")["step"].unique().to_list() == [8]
    other, last = segment(base, [])
    last.run(8, 8, "test")
    assert equal(weights_of(trainer), weights_of(other))


def test_a_segment_after_the_end_has_policy_and_state_of_the_one_before(tmp_path: Path) -> None:
    job = first_segment(tmp_path)
    folders = {}
    for name in ("policy", "state"):
        folders[name] = tmp_path / name / "step8"
        folders[name].mkdir(parents=True)
        (folders[name] / "a.safetensors").write_bytes(name.encode())
        write_manifest(tmp_path / name / "step8.json", {})
        folders[f"{name}_out"] = tmp_path / name / "step10"
    metrics = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for path, first, last in zip(metrics, (1, 5), (4, 8), strict=True):
        part = [row for row in rows([-0.5] * WINDOW) if first <= row[0] <= last]
        write_table(SCHEMAS["metrics"].frame(part).sort("step", "metric"), "metrics", path, {})
    update = {"train": job.train.model_copy(update={"stop": StopConfig(coverage_below=0.2)}), "first": 9, "last": 10}
    paths = {name: str(folder) for name, folder in folders.items()}
    trained = train_segment(job.model_copy(update={**update, **paths, "metrics": list(map(str, metrics))}))
    assert trained.metrics.is_empty()
    assert trained.probes.is_empty()
    for name in ("policy", "state"):
        before, after = tmp_path / name / "step8.json", tmp_path / name / "step10.json"
        write_manifest(after, {}, trained.digests[name])
        assert manifest_digest(verified_manifest(after)) == manifest_digest(read_manifest(before))
