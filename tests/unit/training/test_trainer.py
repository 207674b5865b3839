"""The trainer and its sampling engine, both real: an update, a weight push, and a training cut into segments."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from flash_attention import flash_attention_on_cpu
from safetensors import safe_open
from tiny_training import (
    BARE,
    ENGINE,
    HARDWARE,
    Deaf,
    equal,
    gradients,
    hardware,
    make_segment,
    make_trainer,
    online_prompts,
    train_config,
    weights_of,
)
from torch import Tensor
from transformers import LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from dphrl.config.blocks.training import LoraConfig, MethodConfig
from dphrl.policy.engine import Digest, Engine
from dphrl.policy.logprobs import load_model
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.policy.vllm_engine import VllmEngine
from dphrl.store.files import sha256_file
from dphrl.training.canary import StaleWeightsError, WeightSync
from dphrl.training.loss import Example
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer, Update

pytestmark = pytest.mark.usefixtures("one_rank")

ETA = 0.5
LR = 1e-4
EXP_ONLY = MethodConfig()
JS = MethodConfig(divergence="js", eta=ETA)
JS_DEFINITION = MethodConfig(divergence="js_definition", eta=ETA)
# Of ZeRO; 1 and 2 have one optimizer of DeepSpeed.
STAGES = [0, 1, 3]


@pytest.fixture(scope="module")
def engine(base: Path, made: list[Engine]) -> VllmEngine:
    engine = VllmEngine(base, ENGINE.model_copy(update={"name": "vllm"}), HARDWARE, distributed=True)
    made.append(engine)
    return engine


def _update(
    policy: Path, examples: Sequence[Example], method: MethodConfig = JS_DEFINITION, **changes: Any
) -> tuple[Update, dict[str, Tensor]]:
    """One update from `policy`, and its gradients."""
    trainer = make_trainer(policy, method, **{**BARE, **changes})
    update = trainer.update(examples, LR)
    return update, gradients(trainer)


def _assert_same(found: tuple[Update, dict[str, Tensor]], expected: tuple[Update, dict[str, Tensor]]) -> None:
    assert found[0].totals == pytest.approx(expected[0].totals, rel=1e-5)
    assert found[0].grad_norm == pytest.approx(expected[0].grad_norm, rel=1e-5)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def expected(policy: Path, examples: list[Example]) -> tuple[Update, dict[str, Tensor]]:
    return _update(policy, examples)


@pytest.mark.parametrize(
    "changes",
    [
        {"token_budget": 1},
        {"prompt_sharing": "on", "token_budget": 60},
        {"prompt_sharing": "off", "token_budget": 10_000},
        {"zero_stage": 0},
        {"zero_stage": 2},
        {"gradient_checkpointing": True, "zero_stage": 3, "prompt_sharing": "on"},
    ],
    ids=str,
)
def test_loss_and_gradient_do_not_depend_on_how_the_work_is_cut(
    changes: dict[str, Any], policy: Path, examples: list[Example], expected: tuple[Update, dict[str, Tensor]]
) -> None:
    """The gradient is Adam's first moment at beta 0: what the optimizer took, before any clip."""
    _assert_same(_update(policy, examples, **changes), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_sharing": "off"},
        {"gradient_checkpointing": True, "zero_stage": 3, "token_budget": 60},
    ],
    ids=str,
)
def test_packed_rows_give_the_same_loss_and_gradient(
    changes: dict[str, Any], policy: Path, examples: list[Example], expected: tuple[Update, dict[str, Tensor]]
) -> None:
    with flash_attention_on_cpu():
        trainer = make_trainer(policy, JS_DEFINITION, **{**BARE, **changes})
        assert trainer._deepspeed.module.form() == "packed"
        _assert_same((trainer.update(examples, LR), gradients(trainer)), expected)


def test_loss_and_gradient_do_not_depend_on_the_order_of_rows(
    policy: Path, examples: list[Example], expected: tuple[Update, dict[str, Tensor]]
) -> None:
    by_kind = sorted(examples, key=lambda example: example.rehearsal)
    for order in (examples[::-1], examples[9:] + examples[:9], by_kind, by_kind[::-1]):
        found = _update(policy, order)
        _assert_same(found, expected)
        # Log-probs are of the weights before, in the order that was asked for.
        before = make_trainer(policy, EXP_ONLY).logprobs([example.row for example in order])
        for ours, theirs in zip(found[0].logprobs, before, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_without_weight_the_rehearsal_changes_no_bit(policy: Path, examples: list[Example]) -> None:
    rollouts = [example for example in examples if not example.rehearsal]
    weightless = MethodConfig(divergence="js", eta=0.0)
    trainers = [make_trainer(policy, method, token_budget=60) for method in (EXP_ONLY, weightless)]
    for _ in range(2):
        alone, with_rehearsal = (t.update(rows, LR) for t, rows in zip(trainers, (rollouts, examples), strict=True))
        assert alone.grad_norm == with_rehearsal.grad_norm
    assert equal(weights_of(trainers[0]), weights_of(trainers[1]))


def test_reference_logprobs_of_rollouts_are_the_forward_pass_that_stored_ones_have(
    base: Path, policy: Path, examples: list[Example], reference: ReferenceResponses
) -> None:
    rows, stored = reference.rows(range(len(reference)))
    trainer = make_trainer(policy, JS_DEFINITION, base)
    for ours, theirs in zip(trainer.reference_logprobs(rows), stored, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    trainer.update(examples, 1e-2)
    assert equal(
        dict(enumerate(trainer.reference_logprobs(rows))),
        dict(enumerate(make_trainer(base, EXP_ONLY).logprobs(rows))),
    )


@pytest.mark.parametrize(("dtype", "stage"), [("float32", 0), ("float32", 1), ("bfloat16", 0), ("bfloat16", 3)])
def test_a_gradient_that_is_not_finite_changes_nothing(
    dtype: str, stage: int, policy: Path, examples: list[Example]
) -> None:
    trainer = make_trainer(policy, JS, dtype=dtype, zero_stage=stage)
    before = weights_of(trainer)
    bad = trainer.update([*examples, Example(examples[0].row, advantage=float("nan"))], LR)
    assert bad.grad_norm == float("inf")
    assert equal(before, weights_of(trainer))
    assert 0 < trainer.update(examples, 1e-2).grad_norm < float("inf")
    after = weights_of(trainer)
    assert all(weight.isfinite().all() for weight in after.values())
    assert not equal(before, after)


@pytest.mark.parametrize("stage", STAGES)
def test_clipping_scales_the_gradient_to_the_norm(stage: int, policy: Path, examples: list[Example]) -> None:
    whole, gradient = _update(policy, examples, JS, zero_stage=stage)
    assert whole.grad_norm > 0.1
    clipped, shorter = _update(policy, examples, JS, zero_stage=stage, clip_grad_norm=0.1)
    assert clipped.grad_norm == pytest.approx(whole.grad_norm, rel=1e-6)
    for name in gradient:
        torch.testing.assert_close(shorter[name], gradient[name] * (0.1 / whole.grad_norm), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("stage", STAGES)
def test_in_bfloat16_gradients_add_up_in_float32(stage: int, policy: Path, examples: list[Example]) -> None:
    """Copies of a row, one per pass, have each a 16th of its gradient: in bfloat16 the sum would be off by 1e-3."""
    row = next(example for example in examples if not example.rehearsal)
    settings: dict[str, Any] = {"dtype": "bfloat16", "token_budget": 1, "prompt_sharing": "off", "zero_stage": stage}
    once, often = (make_trainer(policy, EXP_ONLY, **settings).update([row] * copies, LR) for copies in (1, 16))
    assert often.grad_norm == pytest.approx(once.grad_norm, rel=1e-5)


@pytest.mark.parametrize("stage", [0, 3])
def test_in_bfloat16_the_second_gradient_is_after_the_same_first_step(
    stage: int, policy: Path, examples: list[Example]
) -> None:
    """Adam's first step is the longest, if it counts from one: else the second gradient is off by 16 %."""
    trainers = [make_trainer(policy, JS, dtype="bfloat16", zero_stage=number) for number in (1, stage)]
    expected, found = ([trainer.update(examples, 1e-2).grad_norm for _ in range(2)] for trainer in trainers)
    assert found == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("stage", STAGES)
def test_bfloat16_trains_float32_master_weights(
    stage: int, policy: Path, examples: list[Example], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"dtype": "bfloat16", "zero_stage": stage}
    trainer = make_trainer(policy, JS, **settings)
    start = weights_of(trainer)
    update = trainer.update(examples, 1e-3)
    after = weights_of(trainer)
    assert all(weight.dtype == torch.bfloat16 and weight.isfinite().all() for weight in after.values())
    # The same gradient as in float32, but for rounding.
    exact = make_trainer(policy, JS, zero_stage=stage).update(examples, 1e-3)
    assert update.grad_norm == pytest.approx(exact.grad_norm, rel=0.05)
    trainer.save_state(tmp_path / "state")
    with safe_open(tmp_path / "state" / "optimizer-000.safetensors", "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    assert all(tensor.dtype == torch.float32 for tensor in tensors.values())
    masters = torch.cat([tensor.flatten() for key, tensor in tensors.items() if key.startswith("master/")])
    # Steps that bfloat16 weights would not have felt are in the masters.
    assert (masters != masters.bfloat16().float()).float().mean() > 0.5
    assert not equal(start, after)


@pytest.mark.parametrize(
    "settings",
    [
        *({"dtype": dtype, "zero_stage": stage} for dtype in ("float32", "bfloat16") for stage in (0, 3)),
        *({"offload_optimizer": True, "zero_stage": stage} for stage in (1, 3)),
    ],
    ids=str,
)
def test_a_state_that_was_saved_goes_on_bit_for_bit(
    settings: dict[str, Any], policy: Path, examples: list[Example], tmp_path: Path
) -> None:
    trainer = make_trainer(policy, JS, **settings)
    trainer.update(examples, LR)
    trainer.save_state(tmp_path / "state")
    trainer.save_policy(tmp_path / "policy")
    again, fresh = (
        make_trainer(tmp_path / "policy", JS, state=state, **settings) for state in (tmp_path / "state", None)
    )
    norms = [t.update(examples[:9], 2 * LR).grad_norm for t in (trainer, again, fresh)]
    assert norms[0] == norms[1]
    assert equal(weights_of(trainer), weights_of(again))
    # The moments matter: it is not the weights alone that agree.
    assert not equal(weights_of(trainer), weights_of(fresh))
    again.save_state(tmp_path / "again")
    trainer.save_state(tmp_path / "through")
    written = [(tmp_path / name / "optimizer-000.safetensors").read_bytes() for name in ("again", "through")]
    assert written[0] == written[1]


LORA = MethodConfig(divergence="js", eta=ETA, lora=LoraConfig(rank=4))


@pytest.mark.parametrize(("dtype", "method"), [("float32", JS), ("bfloat16", LORA)], ids=["all", "lora"])
def test_a_state_is_the_same_at_every_stage_and_loads_into_every_other(
    dtype: str, method: MethodConfig, policy: Path, examples: list[Example], tmp_path: Path
) -> None:
    """Stage 1 writes a state, which goes through all other stages, offloaded too, and back to a stage-1 trainer."""
    first = make_trainer(policy, method, policy, dtype=dtype)
    first.update(examples, LR)
    first.save_state(tmp_path / "0")
    first.save_policy(tmp_path / "policy")
    layouts = [
        {"zero_stage": stage, "offload_optimizer": offload}
        for stage, offload in ((3, False), (0, False), (2, True), (3, True))
    ]
    for i, layout in enumerate(layouts):
        trainer = make_trainer(tmp_path / "policy", method, policy, tmp_path / f"{i}", dtype=dtype, **layout)
        assert equal(weights_of(trainer), weights_of(first))
        trainer.save_state(tmp_path / f"{i + 1}")
        files = [tmp_path / f"{n}" / "optimizer-000.safetensors" for n in (i, i + 1)]
        assert files[0].read_bytes() == files[1].read_bytes(), layout
    again = make_trainer(tmp_path / "policy", method, policy, tmp_path / f"{len(layouts)}", dtype=dtype)
    assert first.update(examples[:9], LR).grad_norm == again.update(examples[:9], LR).grad_norm
    assert equal(weights_of(first), weights_of(again))


@pytest.mark.parametrize("stage", [1, 3])
def test_an_offloaded_optimizer_steps_as_another_does(stage: int, policy: Path, examples: list[Example]) -> None:
    """It is fused, which rounds otherwise."""
    plain, offloaded = (make_trainer(policy, JS, zero_stage=stage, offload_optimizer=value) for value in (False, True))
    for trainer in (plain, offloaded) * 2:
        trainer.update(examples, LR)
    for name, weight in weights_of(plain).items():
        torch.testing.assert_close(weights_of(offloaded)[name], weight, rtol=1e-5, atol=1e-6)


def test_a_state_of_other_parameters_or_of_a_part_of_them_is_refused(policy: Path, tmp_path: Path) -> None:
    trainer = make_trainer(policy, JS)
    digests = trainer.save_state(tmp_path)
    path = tmp_path / "optimizer-000.safetensors"
    assert digests == {path.name: sha256_file(path)}
    config = load_model(policy, "float32").config
    for change, problem in (
        ({"num_hidden_layers": 1}, r"is of 21 parameters, and 12 are trained now, first model\.layers\.1\.input"),
        ({"intermediate_size": 120}, r"has 8192 consecutive elements of 7680 in `master`, first .*gate_proj"),
    ):
        other = LlamaForCausalLM(type(config)(**{**config.to_dict(), **change}))
        with pytest.raises(
            ValueError, match=rf"optimizer-\*\.safetensors: the state {problem}.* start this training anew"
        ):
            Trainer(other, train_config(), hardware(), JS, state=tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"the state is of 0 parameters, and 21 are trained now"):
        make_trainer(policy, JS, state=tmp_path)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("stage", [1, 3])
def test_a_policy_has_the_bytes_that_transformers_writes_or_shards_of_them(
    stage: int, policy: Path, examples: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs, cut = (tmp_path / name for name in ("ours", "theirs", "cut"))
    trainer = make_trainer(policy, JS, dtype="bfloat16", zero_stage=stage)
    trainer.update(examples, LR)
    digests = trainer.save_policy(ours)
    trainer.model.save_pretrained(theirs, state_dict=weights_of(trainer))
    assert _bytes(ours) == _bytes(theirs)
    assert digests == {"model.safetensors": sha256_file(ours / "model.safetensors")}

    monkeypatch.setattr("dphrl.training.weights._SHARD_BYTES", 50_000)
    digests = trainer.save_policy(cut)
    assert digests == {f"model-0000{i}-of-00004.safetensors": sha256_file(f) for i, f in enumerate(_shards(cut), 1)}
    assert all(file.stat().st_size < 53_000 for file in _shards(cut))
    index = json.loads((cut / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_parameters": 82_240, "total_size": 164_480}
    assert index["weight_map"].keys() == weights_of(trainer).keys()
    assert equal(dict(load_model(cut, "bfloat16").named_parameters()), weights_of(trainer))


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def test_a_mixture_of_experts_is_written_with_the_names_that_it_has_on_disk(tmp_path: Path) -> None:
    size = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2}
    model = MixtralForCausalLM(MixtralConfig(**size, **heads))
    model.save_pretrained(tmp_path / "before")
    trainer = Trainer(load_model(tmp_path / "before", "float32"), train_config(), hardware(), EXP_ONLY)
    trainer.save_policy(tmp_path / "after")
    assert _bytes(tmp_path / "after") == _bytes(tmp_path / "before")


class WithoutHead(Trainer):
    """Names all its weights but the output head, as a model with tied embeddings does."""

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, weight) for name, weight in super().named_weights() if name != "lm_head.weight")


class Packed(Deaf):
    """A deaf engine that keeps all its tensors in another form: only log-probs can show it."""

    def digests(self) -> dict[str, Digest]:
        return {}


class Stale(Deaf):
    """An engine that takes all weights but one, which the log-probs of the canary hardly show."""

    kept = "model.layers.0.input_layernorm.weight"

    def wake(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        self.engine.wake((name, weight) for name, weight in weights if name != self.kept)


def test_the_canary_sees_what_arrived_and_what_did_not(base: Path, engine: VllmEngine, examples: list[Example]) -> None:
    tolerance = 1e-4
    texts = [prompt.tokens for prompt in online_prompts(base)]
    trainer = make_trainer(base, JS)
    sync = WeightSync(trainer, engine, None, texts)
    assert sync.tolerance == tolerance
    assert sync.control() > 100 * tolerance
    assert sync.push(1) <= tolerance
    for _ in range(3):
        trainer.update(examples, 1e-2)
    deaf: Any = Packed(engine)
    with pytest.raises(StaleWeightsError, match=r"positive control: perturbed weights were pushed"):
        WeightSync(make_trainer(base, JS), deaf, tolerance, texts).control()
    with pytest.raises(StaleWeightsError, match=r"step 2: after the weight push .* differ"):
        WeightSync(trainer, deaf, tolerance, texts).push(2)
    assert sync.push(2) <= tolerance

    headless = WithoutHead(load_model(base, "float32"), train_config(), hardware(), JS)
    with pytest.raises(StaleWeightsError, match=r"step 3: after the weight push .* other weights than are trained"):
        WeightSync(headless, engine, tolerance, texts).push(3)
    assert sync.push(4) <= tolerance


def test_a_single_stale_tensor_is_named(base: Path, examples: list[Example]) -> None:
    trainer = make_trainer(base, JS)
    stale: Any = Stale(TransformersEngine(base, ENGINE, HARDWARE))
    sync = WeightSync(trainer, stale, 1e9, [prompt.tokens for prompt in online_prompts(base)])
    sync.push(1)
    trainer.update(examples, 1e-2)
    with pytest.raises(StaleWeightsError, match=rf"step 2: .* 1 of the engine's tensors .* {Stale.kept} for one"):
        sync.push(2)


class Counted(TransformersEngine):
    """An engine that counts the texts whose log-probs it computes."""

    texts = 0

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        self.texts += 1
        return super().text_logprobs(token_ids)


def test_an_engine_with_equal_tensors_computes_the_canary_once(
    base: Path, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(base, JS, dtype="bfloat16")
    engine = Counted(base, ENGINE.model_copy(update={"dtype": "bfloat16"}), HARDWARE)
    sync = WeightSync(trainer, engine, None, [prompt.tokens for prompt in online_prompts(base)])
    sync.control()
    gap, before = sync.push(1), engine.texts
    trainer.update(examples, 1e-2)
    assert sync.push(2) == gap
    assert engine.texts == before
    # A gap that was refused stands for no later push.
    refusing = WeightSync(trainer, engine, -1.0, [prompt.tokens for prompt in online_prompts(base)])
    for step in (3, 4):
        with pytest.raises(StaleWeightsError, match=rf"step {step}: .* log-probs of the canary differ"):
            refusing.push(step)
    # A tensor that cannot be compared may be wrong.
    monkeypatch.setattr(engine, "digests", lambda: {})
    before = engine.texts
    assert sync.push(5) <= sync.tolerance
    assert engine.texts > before


def test_with_adapters_in_bfloat16_the_tolerance_allows_for_merged_weights(base: Path, examples: list[Example]) -> None:
    """The engine's are rounded after merging, the trainer's are not merged; at the start, adapters are zero."""
    trainer = make_trainer(base, JS.model_copy(update={"lora": LoraConfig(rank=4)}), base, dtype="bfloat16")
    engine = TransformersEngine(base, ENGINE.model_copy(update={"dtype": "bfloat16"}), HARDWARE)
    sync = WeightSync(trainer, engine, None, [prompt.tokens for prompt in online_prompts(base)])
    assert 1e-4 < sync.tolerance < 0.3
    assert sync.control() > sync.tolerance
    for step in (1, 2, 3):
        assert sync.push(step) <= sync.tolerance
        trainer.update(examples, 1e-2)


def test_with_vllm_a_training_cut_in_segments_is_the_same_to_the_bit(
    base: Path, engine: VllmEngine, reference: ReferenceResponses, tmp_path: Path
) -> None:
    def run(trainer: Trainer, first: int, last: int) -> pl.DataFrame:
        return make_segment(trainer, engine, base, reference).run(first, last, "test")

    whole = make_trainer(base, JS)
    metrics = run(whole, 1, 4)
    first = make_trainer(base, JS)
    parts = [run(first, 1, 2)]
    first.save_state(tmp_path / "state")
    first.save_policy(tmp_path / "policy")
    second = make_trainer(tmp_path / "policy", JS, state=tmp_path / "state")
    parts.append(run(second, 3, 4))

    assert equal(weights_of(whole), weights_of(second))
    assert not equal(weights_of(whole), weights_of(first))
    assert pl.concat(parts).equals(metrics)
    values = {name: metrics.filter(metric=name)["value"].to_list() for name in metrics["metric"].unique()}
    assert max(values["canary_gap"]) <= 1e-4
    assert max(values["sampler_gap_max"]) <= 1e-3
    assert all(0 <= x <= 1 for name in ("reward", "correct", "clip_share", "truncated_share") for x in values[name])
    assert values["divergence"][0] < values["divergence"][-1]
