"""What is measured during a training, and that it changes nothing of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from tiny_training import (
    BARE,
    ENGINE,
    HARDWARE,
    equal,
    likes_even,
    make_segment,
    make_trainer,
    online_prompts,
    weights_of,
)

from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.batch import Row
from dphrl.policy.requests import Completion, Request
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.training.loss import Example
from dphrl.training.probes import ProbePrompt, Probes
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_rank")

DPH_JS = MethodConfig(divergence="js", eta=0.5)
PROBE = {"every": 2, "prompts": 2, "samples": 3, "gradient": True}


def drawn(base: Path) -> list[ProbePrompt]:
    """Two prompts of each subset, each with a response that the base drew."""
    trainer = make_trainer(base, MethodConfig(rollout_on="all"))
    prompts = online_prompts(base)[:4]
    rows = [Row(prompt.tokens, [5, 6, 7 + i]) for i, prompt in enumerate(prompts)]
    logprobs = trainer.logprobs(rows)
    return [ProbePrompt(("pef", "exp")[i % 2], prompt, [(rows[i], logprobs[i])]) for i, prompt in enumerate(prompts)]


def run(
    base: Path, reference: ReferenceResponses, method: MethodConfig, **probe: Any
) -> tuple[Trainer, Probes, pl.DataFrame]:
    trainer = make_trainer(base, method, base, probe=PROBE | probe)
    engine = TransformersEngine(base, ENGINE, HARDWARE)
    probes = Probes(trainer, engine, drawn(base) if (PROBE | probe)["prompts"] else [], likes_even, trainer.config, 1)
    return trainer, probes, make_segment(trainer, engine, base, reference, probes=probes).run(1, 2, "test")


def test_probes_are_measured_and_change_nothing_of_the_training(base: Path, reference: ReferenceResponses) -> None:
    trainer, probes, metrics = run(base, reference, DPH_JS)
    without, none, plain = run(base, reference, DPH_JS, prompts=0)
    assert equal(weights_of(trainer), weights_of(without))
    added = pl.col("metric").str.starts_with("probe_") | (pl.col("metric") == "divergence_gradient_share")
    assert metrics.filter(~added).equals(plain)
    assert none.table().is_empty()
    measured = metrics.filter(added)
    assert measured["step"].unique().to_list() == [2]
    table = probes.table()
    assert table.group_by("step", "subset").len().sort("step", "subset").rows() == [
        (step, subset, 6) for step in (0, 2) for subset in ("exp", "pef")
    ]
    values = dict(measured.select("metric", "value").iter_rows())
    after = table.filter(step=2)
    for subset in ("pef", "exp"):
        assert values[f"probe_correct_{subset}"] == pytest.approx(after.filter(subset=subset)["correct"].mean())
        # KL(base || policy) by its definition, u - 1 - log u with u = policy / base, over all tokens.
        rows = [pair for one in probes.prompts if one.subset == subset for pair in one.drawn]
        ours = trainer.logprobs([row for row, _ in rows])
        ratios = torch.cat([now - before for now, (_, before) in zip(ours, rows, strict=True)]).tolist()
        expected = sum(math.exp(ratio) - 1 - ratio for ratio in ratios) / len(ratios)
        assert values[f"probe_forward_kl_{subset}"] == pytest.approx(expected, rel=1e-4)
        assert expected > 1e-8


def test_answers_of_different_steps_and_rollouts_are_independent_draws(
    base: Path, reference: ReferenceResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    draw = TransformersEngine.generate

    def recorded(engine: TransformersEngine, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        asked.extend(request.seed for request in requests)
        return draw(engine, requests, label)

    monkeypatch.setattr(TransformersEngine, "generate", recorded)
    run(base, reference, MethodConfig(rollout_on="all"), gradient=False)
    # Four prompts of the probes with three answers each, before the first step and after the second.
    assert len(asked) > 24
    assert len({*asked}) == len(asked)


@pytest.mark.parametrize(
    "method",
    [
        MethodConfig(rollout_on="all", divergence="reverse_kl", eta=0.3),
        MethodConfig(divergence="js_definition", eta=0.7),
    ],
    ids=lambda method: method.divergence,
)
def test_the_share_of_the_gradient_is_that_of_two_updates_with_one_part_each(
    method: MethodConfig, base: Path, policy: Path, examples: list[Example]
) -> None:
    chosen = [example for example in examples if method.rehearses or not example.rehearsal]

    def norm(changed: MethodConfig, **advantage: float) -> float:
        trainer = make_trainer(policy, changed, base, **BARE)
        return trainer.update([replace(e, **advantage) for e in chosen], 0.0).grad_norm

    trainer = make_trainer(policy, method, base, **BARE)
    before = weights_of(trainer)
    share = trainer.divergence_share(chosen)
    assert equal(weights_of(trainer), before)
    of_divergence = norm(method, advantage=0.0)
    of_policy = norm(method.model_copy(update={"eta": 0.0}))
    assert share == pytest.approx(of_divergence / (of_divergence + of_policy), rel=1e-4)
    # The next update is the same as without it.
    fresh = make_trainer(policy, method, base, **BARE)
    for one in (trainer, fresh):
        one.update(chosen, 1e-3)
    assert equal(weights_of(trainer), weights_of(fresh))


def test_a_divergence_in_the_advantages_has_no_share(base: Path, policy: Path, examples: list[Example]) -> None:
    method = MethodConfig(rollout_on="all", divergence="reverse_kl", estimator="to_go")
    rollouts = [example for example in examples if not example.rehearsal]
    assert make_trainer(policy, method, base).divergence_share(rollouts) is None
    assert make_trainer(policy, MethodConfig(rollout_on="all")).divergence_share(rollouts) is None
