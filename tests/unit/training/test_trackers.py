"""Trackers show the values of the metrics table."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from dphrl.training.metrics import Sampled, open_trackers

ROLLOUTS = [Sampled("p1", 1.0, "SELECT 1\n\x1b[2J\ud800<script>")]
METRICS = {1: {"reward": 0.25, "grad_norm": 3.0}, 2: {"reward": 0.5, "grad_norm": 2.0}}


def _show(name: str, folder: Path, steps: list[int], run: str = "grpo-s1") -> None:
    with ExitStack() as stack:
        track = open_trackers([name], folder, run, None, stack)
        for step in steps:
            track(step, METRICS[step], ROLLOUTS)


def test_the_lines_of_a_segment_can_be_read_while_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "step2.jsonl"
    file.write_text("of an attempt that failed\n")
    with ExitStack() as stack:
        track = open_trackers([], tmp_path, "grpo-s1", file, stack)
        for step in (1, 2):
            track(step, METRICS[step], ROLLOUTS)
            assert len(file.read_text().splitlines()) == step
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[1] == {"step": 2, **METRICS[2], "rollouts": [ROLLOUTS[0]._asdict()]}


def test_tensorboard_has_every_metric_of_every_segment(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for segment in ([1], [2]):
        _show("tensorboard", tmp_path, segment)
    events = accumulator.EventAccumulator(str(tmp_path / "grpo-s1"))
    events.Reload()
    texts = events.Tags()["tensors"]
    assert texts == ["rollout/0/text_summary"]
    (shown,) = {event.tensor_proto.string_val[0].decode() for event in events.Tensors(texts[0])}
    assert shown == "p1, reward 1\n\n    SELECT 1\n    \x1b[2J?<script>"
    found = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    assert found == {key: {step: METRICS[step][key] for step in METRICS} for key in ("reward", "grad_norm")}
