"""Every method of the menu: its gradient against formulas written out here, and what a segment does with it."""

import io
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from tiny_training import (
    BARE,
    ENGINE,
    HARDWARE,
    Judgement,
    Recorder,
    equal,
    gradients,
    make_segment,
    make_trainer,
    weights_of,
)
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from dphrl.config.blocks.training import LoraConfig, MethodConfig
from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.store.catalogue import SCHEMAS
from dphrl.training.loss import Example
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_rank")

LORA = LoraConfig(rank=3, alpha=6, targets=("q_proj", "v_proj", "down_proj"))
ETA, CAP = 0.5, 0.7
METHODS = {
    "grpo": MethodConfig(rollout_on="all", eps_high=0.2),
    "dapo": MethodConfig(rollout_on="all", dynamic_sampling_rounds=2, overlong_buffer=4),
    "exp_only": MethodConfig(),
    **{
        f"rkl_{estimator}": MethodConfig(
            rollout_on="all", divergence="reverse_kl", estimator=estimator, eta=ETA, l_cap=CAP
        )
        for estimator in ("k3", "k2", "reward_k1", "to_go")
    },
    **{
        f"rkl_{estimator}_{off_policy}": MethodConfig(
            rollout_on="all",
            divergence="reverse_kl",
            estimator=estimator,
            off_policy=off_policy,
            off_policy_cap=2.0,
            eta=ETA,
            l_cap=CAP,
        )
        for estimator, off_policy in (("k2", "weight"), ("k3", "differentiate"))
    },
    "alpha": MethodConfig(divergence="alpha", alpha=0.3, eta=ETA, l_cap=CAP),
    "dph_f": MethodConfig(divergence="forward_kl", eta=ETA, l_cap=CAP),
    "dph_f_k1": MethodConfig(divergence="forward_kl", estimator="k1", eta=ETA),
    "dph_f_conditional": MethodConfig(divergence="forward_kl", topk_estimator="conditional", eta=ETA, l_cap=CAP),
    "dph_js": MethodConfig(divergence="js", eta=ETA, l_cap=CAP),
    "dph_js_halved": MethodConfig(divergence="js", js_scale=0.5, topk_estimator="sum", eta=ETA, l_cap=CAP),
    "js_definition": MethodConfig(divergence="js_definition", eta=ETA, l_cap=CAP),
    "js_definition_exact": MethodConfig(divergence="js_definition", estimator="exact", js_beta=0.3, eta=ETA, l_cap=CAP),
    "js_definition_weight": MethodConfig(
        divergence="js_definition", estimator="exact", off_policy="weight", eta=ETA, l_cap=CAP
    ),
}


# The formulas of the paper in float64, with nothing of the package.

Form = Callable[[Tensor], Tensor]


def _k3(x: Tensor) -> Tensor:
    return x.exp() - 1 - x


def _js(x: Tensor) -> Tensor:
    u = x.exp()
    return u * x - (u + 1) * ((u + 1) / 2).log()


def _alpha(a: float) -> Form:
    return lambda x: (((1 - a) * x).exp() - (1 - a) * x.exp() - a) / (a * (a - 1))


def _half(x: Tensor) -> Tensor:
    """KL to the mixture as r - 1 - ln r, with r = (1 + u) / 2."""
    r = (1 + x.exp()) / 2
    return r - 1 - r.log()


def _capped(form: Form) -> Form:
    """The form up to the cap, and its tangent beyond."""
    at = torch.tensor(CAP, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(form(at), at)
    end = form(at).detach()
    return lambda x: torch.where(x <= CAP, form(x.clamp(max=CAP)), end + slope * (x - CAP))


def _exact(x: Tensor) -> Tensor:
    """Its gradient is the score-function weight of KL(pi_theta || M), less the constant that it has at u = 1."""
    u = x.detach().exp()
    return ((2 * u / (1 + u)).log() + 1 / (1 + u) - 0.5) * x


def _forms(method: MethodConfig) -> tuple[Form | None, Form | None]:
    """On stored responses, and on rollouts (which see the inverse ratio)."""
    match method.divergence, method.estimator:
        case "forward_kl", "k1":
            return torch.neg, None
        case "forward_kl", "k3":
            return _capped(_k3), None
        case "js", _:
            return _capped(lambda x: method.js_scale * _js(x)), None
        case "alpha", _:
            return _capped(_alpha(method.alpha)), None
        case "js_definition", "k3":
            return _capped(_half), lambda x: _capped(_half)(-x)
        case "js_definition", "exact":
            return _capped(_half), _exact
        case "reverse_kl", "k3":
            return None, lambda x: _capped(_k3)(-x)
        case "reverse_kl", "k2":
            return None, lambda x: x.square() / 2
    return None, None


def _off_policy(method: MethodConfig, values: Tensor, ratio: Tensor) -> Tensor:
    """The value times rho, at most the cap; its gradient is rho's times the value, and the value's times rho."""
    if method.off_policy is None:
        return values
    cap = method.off_policy_cap or math.inf
    rho = ratio if method.off_policy == "differentiate" else ratio.detach()
    return torch.where(rho < cap, rho, cap) * values


def _logits(model: LlamaForCausalLM, row: Row) -> Tensor:
    """Log-softmax at the places that predict the response, by a forward pass of this row alone."""
    ids = torch.tensor([[*row.prompt, *row.response]])
    return model(input_ids=ids).logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)


def _clipped(ratio: Tensor, advantage: float, high: float) -> Tensor:
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1 + high))
    return loss if advantage > 0 else loss.clamp(max=-3.0 * advantage)


def _with_topk(form: Form, x: Tensor, all_ratios: Tensor, example: Example, how: str) -> Tensor:
    assert example.topk is not None
    ids, logprobs = example.topk[0].long(), example.topk[1].double()
    within = (logprobs.exp() * form(all_ratios)).sum(1)
    hit = (ids == torch.tensor(example.row.response)[:, None]).any(1)
    if how == "sum":
        return within + torch.where(hit, 0.0, form(x))
    return torch.where(hit, within / logprobs.exp().sum(1), form(x))


def _losses(
    model: LlamaForCausalLM, examples: Sequence[Example], method: MethodConfig, tis_cap: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Token means of the policy loss, of the divergence on rollouts, and of that on stored responses."""
    on_stored, on_rollouts = _forms(method)
    policy, rollouts, stored = [], [torch.zeros(0)], [torch.zeros(0)]
    for example in examples:
        everything = _logits(model, example.row)
        ours = everything.gather(1, torch.tensor(example.row.response)[:, None])[:, 0]
        log_ratio = ours - example.reference.double()
        if example.rehearsal:
            if on_stored is None:
                continue
            value = on_stored(log_ratio)
            if method.topk_estimator:
                ids, logprobs = example.topk
                value = _with_topk(
                    on_stored, log_ratio, everything.gather(1, ids.long()) - logprobs, example, method.topk_estimator
                )
            stored.append(value)
            continue
        old = ours.detach() if example.old is None else example.old.double()
        loss = _clipped((ours - old).exp(), example.advantage, method.eps_high)
        if tis_cap is not None:
            loss = loss * (old - example.sampler.double()).exp().clamp(max=tis_cap)
        policy.append(loss)
        if on_rollouts is not None:
            rollouts.append(_off_policy(method, on_rollouts(log_ratio), (ours - old).exp()))
    means = [torch.cat(parts).mean() if len(torch.cat(parts)) else torch.zeros(()) for parts in (rollouts, stored)]
    return torch.cat(policy).mean(), means[0], means[1]


_COUNT: dict[str, Callable[[Example], int]] = {
    "separate": lambda example: 1,
    "joint": lambda example: 1,
    "tokens": lambda example: len(example.row.response),
}


def _expected(
    folder: Path,
    examples: Sequence[Example],
    method: MethodConfig,
    norm: str = "separate",
    tis_cap: float | None = None,
) -> tuple[tuple[float, ...], dict[str, Tensor]]:
    """The three means, and the gradients of the whole loss."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    policy, rollouts, stored = _losses(model, examples, method, tis_cap)
    # A row, or with `tokens` one of its tokens, has the same weight whatever its kind.
    counts = [sum(_COUNT[norm](e) for e in examples if e.rehearsal == kind) for kind in (False, True)]
    of_policy, of_stored = (1.0, 1.0) if norm == "separate" else (count / sum(counts) for count in counts)
    # Reverse KL is added to the policy loss. Both halves of JS weigh alike, unless js_beta says otherwise.
    of_rollouts = of_policy if method.divergence == "reverse_kl" else of_stored
    if method.js_beta != "auto":
        of_rollouts = of_policy * method.js_beta
    loss = of_policy * policy + method.eta * (of_rollouts * rollouts + of_stored * stored)
    names, parameters = zip(*model.named_parameters(), strict=True)
    means = tuple(float(mean.detach()) for mean in (policy, rollouts, stored))
    return means, dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def _rows_of(method: MethodConfig, examples: Sequence[Example]) -> list[Example]:
    return [example for example in examples if method.rehearses or not example.rehearsal]


def _assert_close(found: dict[str, Tensor], expected: dict[str, Tensor], rtol: float = 1e-4) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(
            found[name].double(), gradient, rtol=rtol, atol=rtol * 0.1 * scale + 1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )


# Three methods differ from others in their advantages alone, which the recorded rows have already.
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("dapo", "rkl_reward_k1", "rkl_to_go")])
def test_the_gradient_is_that_of_the_formulas(name: str, policy: Path, base: Path, examples: list[Example]) -> None:
    method = METHODS[name]
    rows = _rows_of(method, examples)
    means, expected = _expected(policy, rows, method)
    trainer = make_trainer(policy, method, base, **BARE)
    update = trainer.update(rows, 1e-3)
    _assert_close(gradients(trainer), expected)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in expected.values()))
    assert update.grad_norm == pytest.approx(norm, rel=1e-5)
    totals = update.totals
    assert totals["policy_loss_sum"] / totals["rollout_tokens"] == pytest.approx(means[0], rel=1e-5)
    if method.off_policy:
        ratios = [(ours - e.old).exp() for e, ours in zip(rows, update.logprobs, strict=True) if e.old is not None]
        beyond = (torch.cat(ratios) > 2.0).sum()
        assert beyond > 0
        assert totals["off_policy_capped_sum"] == (beyond if method.off_policy_cap else 0)
    if method.divergence in ("reverse_kl", "js_definition") and method.estimator in ("k3", "k2"):
        assert totals["rollout_divergence_sum"] / totals["rollout_tokens"] == pytest.approx(means[1], rel=1e-5)
    if method.rehearses:
        assert totals["divergence_sum"] / totals["rehearsal_tokens"] == pytest.approx(means[2], rel=1e-5)


@pytest.mark.parametrize("norm", ["joint", "tokens"])
def test_the_norm_weighs_by_rows_or_by_tokens(norm: str, policy: Path, base: Path, examples: list[Example]) -> None:
    method = METHODS["js_definition"]
    trainer = make_trainer(policy, method, base, rehearsal_norm=norm, **BARE)
    trainer.update(examples, 1e-3)
    _assert_close(gradients(trainer), _expected(policy, examples, method, norm)[1])


def test_truncated_importance_sampling_weighs_by_old_over_sampler(policy: Path, examples: list[Example]) -> None:
    rows = _rows_of(METHODS["exp_only"], examples)
    trainer = make_trainer(policy, METHODS["exp_only"], tis_cap=1.1, **BARE)
    trainer.update(rows, 1e-3)
    _assert_close(gradients(trainer), _expected(policy, rows, METHODS["exp_only"], tis_cap=1.1)[1])


@pytest.mark.parametrize("stage", [1, 3])
def test_adapters_get_the_gradient_of_the_weights_by_the_chain_rule(
    stage: int, policy: Path, base: Path, examples: list[Example]
) -> None:
    method = METHODS["dph_js"].model_copy(update={"lora": LORA})
    trainer = make_trainer(policy, method, policy, zero_stage=stage, **BARE)
    trainer.update(examples, 1e-2)
    # Only now is B not zero, so that A gets a gradient too.
    merged = weights_of(trainer)
    adapters = _adapters(trainer)
    trainer.update(examples, 1e-2)
    folder = policy.with_name(f"merged{stage}")
    model = load_model(policy, "float32")
    model.load_state_dict(merged)
    model.save_pretrained(folder)
    of_weights = _expected(folder, examples, method)[1]
    expected = {}
    for name in adapters:
        layer = name.partition(".lora_")[0]
        a, b = (adapters[f"{layer}.lora_{x}.default.weight"].double() for x in "AB")
        of_weight = 2.0 * of_weights[f"{layer}.weight"]
        expected[name] = b.T @ of_weight if ".lora_A" in name else of_weight @ a.T
    _assert_close(gradients(trainer), expected)


def _adapters(trainer: Trainer) -> dict[str, Tensor]:
    found = {}
    for name, parameter in trainer.model.named_parameters():
        if ".lora_" in name:
            with trainer._gather([parameter]):
                found[name] = parameter.detach().clone()
    return found


# What a segment does with a method.


@pytest.fixture(scope="module")
def engine(base: Path) -> TransformersEngine:
    return TransformersEngine(base, ENGINE, HARDWARE)


def test_places_that_dynamic_sampling_could_not_fill_enter_no_sum_and_no_denominator(
    base: Path, engine: TransformersEngine, reference: ReferenceResponses
) -> None:
    method = MethodConfig(divergence="forward_kl", eta=ETA, dynamic_sampling_rounds=1, overlong_buffer=4)
    trainer = make_trainer(base, method, base, kind=Recorder, **BARE)
    make_segment(trainer, engine, base, reference).run(1, 1, "test")
    made = next(m for m in trainer.made if len({e.counted for e in m.examples if not e.rehearsal}) == 2)
    groups = [made.examples[i : i + 4] for i in (0, 4)]
    # All of a group count, or none; those that do not are the ones without a signal.
    assert {len({e.counted for e in group}) for group in groups} == {1}
    counted = [e for e in made.examples if e.counted]
    found, alone = (make_trainer(base, method, base, **BARE) for _ in range(2))
    whole, rest = found.update(made.examples, 1e-4), alone.update(counted, 1e-4)
    assert whole.totals == rest.totals
    assert whole.totals["rollout_tokens"] == sum(len(e.row.response) for e in counted if not e.rehearsal)
    assert equal(gradients(found), gradients(alone))


def test_a_step_without_any_signal_changes_no_weight(base: Path, engine: TransformersEngine) -> None:
    def wrong(texts: Sequence[str], *_: Sequence[Any]) -> list[Judgement]:
        return [Judgement(False, 0.0) for _ in texts]

    trainer = make_trainer(base, MethodConfig(dynamic_sampling_rounds=1), base)
    before = weights_of(trainer)
    metrics = make_segment(trainer, engine, base, None, score=wrong).run(1, 1, "test")
    assert equal(weights_of(trainer), before)
    assert metrics.filter(metric="skipped_updates")["value"].to_list() == [2.0]
    assert "policy_loss" not in metrics["metric"].to_list()


def test_the_work_within_a_step_is_shown_where_it_takes_seconds(
    base: Path,
    engine: TransformersEngine,
    reference: ReferenceResponses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("dphrl.machine.progress._stream", out)
    monkeypatch.setattr("dphrl.machine.progress._SECONDS_BETWEEN_LINES", 0.0)
    make_segment(make_trainer(base, METHODS["dph_f"]), engine, base, reference).run(1, 1, "dph_f")
    shown = [line.rpartition(", ")[2] for line in out.getvalue().splitlines()[1:-1]]
    assert shown[0] == "drawing 16 responses"
    # Rollouts, then stored responses, of two updates.
    updates = [text for text in shown if text.endswith("of 10 rows of an update")]
    assert [int(text.split()[0]) for text in updates] == 2 * [8, 10]
    assert len(updates) == len(shown) - 1


@pytest.mark.parametrize("name", ["dapo", "rkl_to_go", "rkl_k3_differentiate", "dph_f_conditional", "js_definition"])
def test_two_steps_run_and_report_what_the_method_does(
    name: str, base: Path, engine: TransformersEngine, reference: ReferenceResponses
) -> None:
    method = METHODS[name]
    trainer = make_trainer(base, method, base, kind=Recorder)
    metrics = make_segment(trainer, engine, base, reference).run(1, 2, name)
    assert SCHEMAS["metrics"].conform(metrics, "test")["step"].unique().to_list() == [1, 2]
    assert metrics["value"].is_finite().all()
    values = {metric: metrics.filter(metric=metric)["value"].to_list() for metric in metrics["metric"].unique()}
    assert all(len(of_steps) == 2 for of_steps in values.values())
    assert ("divergence" in values) == method.rehearses
    assert ("rollout_divergence" in values) == method.needs_reference_model
    assert {"sampler_gap_mean", "sampler_gap_max", "sampler_ess"} <= values.keys()
    assert max(values["sampler_gap_max"]) < 1e-4
    assert min(values["sampler_ess"]) > 1 - 1e-6
    assert max(values["skipped_updates"]) == 0
    assert (sum(values["refilled"]) > 0) == (name == "dapo")
    stored = [
        [(b - e.reference).tolist() for e, b in zip(m.examples, m.before, strict=True) if e.rehearsal]
        for m in trainer.made
    ]
    for step in range(2 * method.rehearses):
        tokens = sorted(x for of_update in stored[2 * step : 2 * step + 2] for row in of_update for x in row)
        assert values["l_mean"][step] == pytest.approx(sum(tokens) / len(tokens), abs=1e-6)
        assert values["l_max"][step] == pytest.approx(tokens[-1], abs=1e-6)
        place = 0.99 * (len(tokens) - 1)
        low, high = tokens[math.floor(place)], tokens[math.ceil(place)]
        assert values["l_p99"][step] == pytest.approx(low + (place % 1) * (high - low), abs=1e-6)
    assert ("l_max" in values) == method.rehearses
    # A method with dynamic sampling trains on informative groups alone.
    assert all(e.counted for m in trainer.made for e in m.examples) == (name != "dapo")
    # Four updates: each has half of the step's rollouts, and of its stored responses where it rehearses.
    made = trainer.made
    assert [sum(not e.rehearsal for e in m.examples) for m in made] == [8] * 4
    assert [sum(e.rehearsal for e in m.examples) for m in made] == [2 * method.rehearses] * 4
    assert all(
        (e.reference is not None) == method.needs_reference_model for m in made for e in m.examples if not e.rehearsal
    )


def _grpo(rewards: Sequence[float], std: bool = True) -> list[float]:
    """Advantages of one group."""
    mean = statistics.fmean(rewards)
    return [(reward - mean) / (statistics.stdev(rewards) + 1e-6 if std else 1.0) for reward in rewards]


def _long(texts: Sequence[str], *_: Sequence[Any]) -> list[Judgement]:
    """Rewards that differ from text to text."""
    return [Judgement(len(text) % 2 == 0, (sum(map(ord, text)) % 7) / 7) for text in texts]


def _all_right(texts: Sequence[str], *_: Sequence[Any]) -> list[Judgement]:
    return [Judgement(True, 1.0) for _ in texts]


@pytest.mark.parametrize(
    ("method", "score"),
    [
        (MethodConfig(advantage_std=False), _long),
        (MethodConfig(overlong_buffer=6), _long),
        *(
            (MethodConfig(rollout_on="all", divergence="reverse_kl", estimator=estimator, eta=0.3), score)
            for estimator in ("reward_k1", "to_go")
            for score in (_long, _all_right)
        ),
    ],
    ids=["dr_grpo", "overlong", "reward_k1", "reward_k1-all_right", "to_go", "to_go-all_right"],
)
def test_advantages_are_of_the_shaped_rewards_and_the_reverse_kl_is_taken_off(
    method: MethodConfig,
    score: Callable[..., list[Judgement]],
    base: Path,
    policy: Path,
    engine: TransformersEngine,
    reference: ReferenceResponses,
) -> None:
    """METHOD 15.1.3 and 15.1.4, token by token; in an all-right group the reverse KL alone is left, not its z-score."""
    engine.wake((n, w) for n, w in load_model(policy, "float32").named_parameters())
    trainer = make_trainer(policy, method, base, kind=Recorder, mini_batches=1)
    make_segment(trainer, engine, base, reference, score=score).run(1, 1, "test")
    (made,) = trainer.made
    texts = [engine._tokenizer.decode(e.row.response, skip_special_tokens=True) for e in made.examples]
    rewards = [judgement.reward for judgement in score(texts, texts)]
    if method.overlong_buffer:
        penalties = [min(max((len(e.row.response) - (12 - 6)) / 6, 0), 1) for e in made.examples]
        assert max(penalties) > 0
        rewards = [reward - penalty for reward, penalty in zip(rewards, penalties, strict=True)]
    theirs = response_logprobs(LogProbs(load_model(base, "float32")), [e.row for e in made.examples], 1000)
    k1 = [(ours - of_base).tolist() for ours, of_base in zip(made.before, theirs, strict=True)]
    assert max(abs(sum(part)) for part in k1) > 0.5
    for first in range(0, len(rewards), 4):
        group = range(first, first + 4)
        task = _grpo(rewards[first : first + 4], method.advantage_std)
        for i in group:
            expected = [task[i - first]] * len(k1[i])
            if method.divergence:
                # The sum over a response, or over what is left of it; over the other three too, 0 where it has ended.
                starts = range(len(k1[i])) if method.estimator == "to_go" else [0] * len(k1[i])
                others = [statistics.fmean(sum(k1[j][t:]) for j in group if j != i) for t in starts]
                own = [sum(k1[i][t:]) for t in starts]
                expected = [a - 0.3 * (o - b) for a, o, b in zip(expected, own, others, strict=True)]
            found = torch.as_tensor(made.examples[i].advantage).expand(len(k1[i]))
            assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_old_logprobs_are_those_of_the_sampling_weights_in_every_epoch(
    base: Path, engine: TransformersEngine, reference: ReferenceResponses
) -> None:
    trainer = make_trainer(base, METHODS["dph_js"], base, kind=Recorder, ppo_epochs=2, lr=1e-2)
    segment = make_segment(trainer, engine, base, reference)
    segment.run(1, 1, "test")
    at_start = LogProbs(load_model(base, "float32"))
    first, second, again, last = trainer.made
    # The first mini-batch is still made by the weights that sampled.
    assert all(e.old is None for e in first.examples if not e.rehearsal)
    for made in (second, again, last):
        rollouts = [e for e in made.examples if not e.rehearsal]
        for example, old in zip(rollouts, response_logprobs(at_start, [e.row for e in rollouts], 1000), strict=True):
            torch.testing.assert_close(example.old, old, rtol=0, atol=1e-5)
        moved = torch.cat([e.old - b for e, b in zip(made.examples, made.before, strict=True) if not e.rehearsal])
        assert moved.abs().max() > 1e-2
    assert [e.row for e in again.examples] == [e.row for e in first.examples]


def test_the_mismatch_of_sampler_and_trainer_is_reported(
    base: Path, engine: TransformersEngine, reference: ReferenceResponses
) -> None:
    class Biased(TransformersEngine):
        """Reports log-probs that are 0.1 too low for every second token."""

        def generate(self, requests: Any, label: str | None = None) -> Any:
            completions = super().generate(requests, label)
            for completion in completions:
                completion.logprobs[::2] = [x - 0.1 for x in completion.logprobs[::2]]
            return completions

    trainer = make_trainer(base, METHODS["grpo"], kind=Recorder, mini_batches=1, tis_cap=1.05)
    metrics = make_segment(trainer, Biased(base, ENGINE, HARDWARE), base, reference).run(1, 1, "test")
    values = dict(metrics.select("metric", "value").iter_rows())
    lengths = [len(e.row.response) for e in trainer.made[0].examples]
    share = sum((n + 1) // 2 for n in lengths) / sum(lengths)
    assert values["sampler_gap_max"] == pytest.approx(0.1, abs=1e-4)
    assert values["sampler_gap_mean"] == pytest.approx(0.1 * share, abs=1e-4)
    w = math.exp(0.1)
    ess = (share * w + 1 - share) ** 2 / (share * w**2 + 1 - share)
    assert values["sampler_ess"] == pytest.approx(ess, abs=1e-5)


def test_adapters_leave_the_base_and_are_merged_for_engine_and_policy(
    base: Path, reference: ReferenceResponses, tmp_path: Path
) -> None:
    method = METHODS["js_definition"].model_copy(update={"lora": LORA})
    engine = TransformersEngine(base, ENGINE, HARDWARE)
    trainer = make_trainer(base, method, base)
    make_segment(trainer, engine, base, reference).run(1, 2, "test")
    original = dict(load_model(base, "float32").named_parameters())
    kept = {
        n.replace(".base_layer.", "."): p.detach() for n, p in trainer.model.named_parameters() if ".lora_" not in n
    }
    assert equal(kept, original)

    merged = weights_of(trainer)
    changed = {n for n in merged if not torch.equal(merged[n], original[n])}
    assert changed == {f"{n.partition('.lora_')[0]}.weight" for n in _adapters(trainer)}
    engine.wake(trainer.named_weights())
    assert equal(dict(engine._model.named_parameters()), merged)
    trainer.save_policy(tmp_path)
    saved = load_model(tmp_path, "float32")
    assert equal(dict(saved.named_parameters()), merged)
    rows = [Row([3, 4, 5, 6], [7, 8, 9]), Row([3, 4], [5])]
    for ours, theirs in zip(trainer.logprobs(rows), response_logprobs(LogProbs(saved), rows, 100), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


# One training, cut and not.


def _trained(
    method: MethodConfig, steps: int, base: Path, reference: ReferenceResponses, folder: Path
) -> tuple[dict[str, Tensor], pl.DataFrame]:
    """Weights and metrics after four steps in segments of `steps`, each with its own trainer and engine."""
    policy, state, tables = base, None, []
    for first in range(1, 5, steps):
        trainer = make_trainer(policy, method, base, state)
        engine = TransformersEngine(policy, ENGINE, HARDWARE)
        tables.append(make_segment(trainer, engine, base, reference).run(first, first + steps - 1, "test"))
        policy, state = folder / f"policy{first}", folder / f"state{first}"
        trainer.save_policy(policy)
        trainer.save_state(state)
        engine._tokenizer.save_pretrained(policy)
    return weights_of(trainer), pl.concat(tables)


def test_a_training_of_adapters_cut_in_four_is_the_same_to_the_bit(
    base: Path, reference: ReferenceResponses, tmp_path: Path
) -> None:
    """Of all weights: test_ranks.py, and with vLLM test_trainer.py."""
    method = METHODS["js_definition"].model_copy(update={"lora": LORA})
    whole, metrics = _trained(method, 4, base, reference, tmp_path / "whole")
    weights, table = _trained(method, 1, base, reference, tmp_path / "cut")
    assert equal(whole, weights)
    assert metrics.equals(table)
    start = dict(load_model(base, "float32").named_parameters())
    assert max(float((whole[name] - start[name]).abs().max()) for name in whole) > 1e-3
