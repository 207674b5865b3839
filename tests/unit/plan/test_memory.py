"""Sizes of models against transformers; their planned memory worked out by hand from the code, and on docs/gpu.md."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import TrainConfig
from dphrl.config.errors import ConfigError
from dphrl.config.load import load_config
from dphrl.plan.describe import check_memory
from dphrl.plan.memory import (
    GB,
    ModelShape,
    Phase,
    Setting,
    host_bytes,
    phases,
    reference_phase,
    sampling_phase,
    training_bytes,
    without_gpu,
)
from dphrl.policy import logprobs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu.md"
SIZES = ("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "num_attention_heads")
SMALL = dict(zip((*SIZES, "num_key_value_heads"), (3, 64, 300, 96, 4, 2), strict=True))
TIED = {"tie_word_embeddings": True}


def shape(*sizes, **more):
    return ModelShape.from_config(dict(zip(SMALL, sizes, strict=True)) | more)


def peak(model, setting):
    return max(phase.total for phase in phases(model, setting))


def keys(*, reference=False, adapters=None, dtype="bfloat16", **hardware):
    return Setting(HardwareConfig(**hardware), dtype, reference=reference, adapters=adapters)


LLAMA_8B = shape(32, 4096, 128256, 14336, 32, 8)
QWEN_32B = shape(64, 5120, 152064, 27648, 40, 8)
EIGHT = {"ranks": 8, "zero_stage": 3, "gradient_checkpointing": True}
SHARDED = keys(**EIGHT)
SPREAD = keys(**EIGHT | {"ranks": 32})
BIRD = {
    "run": "bird",
    "policy": {"base": "llama"},
    "datasets": {"bird": {"task": "sql", "source": "train.json"}},
    "train_dataset": "bird",
    "evaluate": {"datasets": ["bird"]},
}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("mistral", {"num_key_value_heads": 4}),
        ("qwen2", TIED),
        ("qwen3", {"head_dim": 24}),
        ("olmo2", {}),
    ],
)
def test_as_many_parameters_as_the_model_has_but_for_biases(kind, more):
    config = AutoConfig.for_model(kind, **{**SMALL, **more})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    small = ModelShape.from_config(config.to_dict())
    assert small.parameters == pytest.approx(sum(parameter.numel() for parameter in model.parameters()), rel=0.01)
    assert small.largest == max(parameter.numel() for parameter in model.parameters())


def test_other_architectures_and_missing_sizes_are_named():
    for other in ({"num_local_experts": 8}, {"vocab_size": None}):
        with pytest.raises(ValueError, match=r"config\.json: expected a dense decoder, with num_hidden_layers, "):
            ModelShape.from_config(SMALL | other)


def test_stage_1_in_bfloat16_by_hand():
    """DeepSpeed's BF16_Optimizer: whole gradients in both types, and this rank's quarter of the rest."""
    n = LLAMA_8B.parameters
    found = {phase.name: phase.parts for phase in phases(LLAMA_8B, keys(ranks=4))}
    assert n == 8_030_261_248
    # 16.06 + 32.12 + 16.06 / 2 + 16.06 GB, and 16.06 while a gradient exists.
    states = {"weights": 2 * n, "gradients": 4 * n, "master weights": n, "AdamW's moments": 2 * n}
    always = {"context": 1.5e9, **states, "buckets": 1e9}
    assert found["optimizer step"] == {
        **always,
        "sleeping engine": 1.5e9,
        "workspace": 1.5e9,
        "gradients of a pass": 2 * n,
        "update": 2 * n,
    }
    assert found["start"] == {**always, "sleeping engine": 1.5e9, "largest weight": 2 * 128256 * 4096}
    engine = {"engine's weights": 2 * n, "key-value cache": 24 * 2**30, "engine's buffers": 3.3e9 + 0.15 * n}
    assert found["generating"] == pytest.approx({**always, **engine})
    assert 4e9 < found["generating"]["engine's buffers"] < 5e9
    assert found["training"]["gradients of a pass"] == 2 * n


@pytest.mark.parametrize(
    ("setting", "update"),
    [
        (keys(zero_stage=0, ranks=4), 8.0),
        (keys(zero_stage=1, ranks=4), 2.0),
        (keys(zero_stage=2, ranks=4), 2.0),
        (keys(zero_stage=3, ranks=4), 2.0),
        (keys(zero_stage=1, ranks=4, dtype="float32"), 2.0),
        (keys(zero_stage=1, ranks=4, offload_optimizer=True), 0.0),
    ],
)
def test_the_bytes_of_an_optimizer_step_for_each_parameter(setting, update):
    found = {phase.name: phase.parts for phase in phases(LLAMA_8B, setting)}["optimizer step"]
    assert found.get("update", 0.0) == update * LLAMA_8B.parameters
    # DeepSpeed keeps a second gradient at stage 1 in bfloat16 alone.
    assert ("gradients of a pass" in found) == (setting == keys(zero_stage=1, ranks=4))


def test_the_chunks_of_the_head_are_those_of_the_code():
    """Five times 2^24 values, in five copies of four bytes: 1.7 GB."""
    assert logprobs._LOGITS_PER_CHUNK < logprobs._LOGITS_PER_CHUNK_ON_GPU == 5 * 2**24
    parts = {phase.name: phase.parts for phase in phases(LLAMA_8B, SHARDED)}["training"]
    weights = 2 * 128256 * 4096 * 2
    assert parts["head"] == reference_phase(LLAMA_8B, SHARDED).parts["head"] == weights + 5 * 2**24 * 4 * 5


def test_without_a_gpu_no_part_of_cuda_counts_and_no_phase_frees_its_parts():
    together = [Phase("one", {"context": 1.0, "weights": 8.0}), Phase("two", {"weights": 9.0, "update": 2.0})]
    assert without_gpu(together) == 11.0


@pytest.mark.parametrize(("model", "setting"), [(LLAMA_8B, SHARDED), (QWEN_32B, SPREAD)])
def test_a_reference_model_is_divided_with_zero_3(model, setting):
    alone = {phase.name: phase for phase in phases(model, setting)}
    found = {phase.name: phase for phase in phases(model, replace(setting, reference=True))}
    assert found.keys() == alone.keys()
    for name, phase in found.items():
        assert phase.total - alone[name].total == pytest.approx(2 * model.parameters / setting.hardware.ranks)


def test_the_reference_needs_less_than_a_training():
    """So a run whose trainings fit can compute it."""
    for stage, more in product(range(4), [{}, EIGHT, EIGHT | {"offload_optimizer": True, "ranks": 64}]):
        setting = keys(**more | {"zero_stage": stage})
        for model in (LLAMA_8B, QWEN_32B):
            assert reference_phase(model, setting).total < peak(model, setting)


def test_the_reference_is_divided_with_zero_3():
    alone, divided = (reference_phase(QWEN_32B, keys(**EIGHT | {"zero_stage": stage})) for stage in (2, 3))
    assert alone == reference_phase(QWEN_32B, keys(gradient_checkpointing=True))
    weights = 2 * QWEN_32B.parameters
    assert alone.total - divided.total == pytest.approx(weights * 7 / 8 - 2e9)


def test_without_zero_3_a_reference_model_is_on_the_gpu_only_while_it_is_used():
    *others, using = phases(LLAMA_8B, keys(reference=True, gradient_checkpointing=True))
    assert others == phases(LLAMA_8B, keys(gradient_checkpointing=True))
    assert using.parts["reference model"] == 2 * LLAMA_8B.parameters
    # The reference model comes in place of the gradients of a pass, which are as large; no layer is kept.
    assert using.total - others[2].total == pytest.approx(-31 * 32384 * 4096 * 2)


def test_lora_keeps_states_of_its_adapters_only():
    adapters = LLAMA_8B.adapters(16, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))
    assert adapters == 41_943_040
    setting = keys(adapters=adapters, gradient_checkpointing=True)
    found = phases(LLAMA_8B, setting)[2].parts
    assert found["master weights"] == 4 * adapters
    assert found["weights"] == 2 * LLAMA_8B.parameters


def test_a_method_with_adapters_has_a_reference_model_too():
    """A segment loads one for the divergence, whatever is trained."""
    method = {"rollout_on": "all", "divergence": "reverse_kl", "lora": {"rank": 16}}
    setting = Setting.of(load_config(BIRD | {"methods": {"rkl": method}}), "rkl", LLAMA_8B)
    assert setting.reference
    assert setting.adapters


def test_a_config_that_cannot_fit_is_refused_with_the_keys_to_change():
    config = load_config(BIRD | {"methods": {"grpo": {"rollout_on": "all"}}})
    with pytest.raises(
        ConfigError,
        match=r"(?s)methods grpo.*while training .*activations 231.*hardware.gradient_checkpointing, zero_stage, ranks",
    ):
        check_memory(config, LLAMA_8B, 80)
    check_memory(load_config(BIRD | {"methods": {"grpo": {"rollout_on": "all"}}, "hardware": EIGHT}), LLAMA_8B, 80)


WITHOUT_TRAINING = {key: value for key, value in BIRD.items() if key != "train_dataset"} | {"methods": {}}
LLAMA_70B = shape(80, 8192, 128256, 28672, 64, 8)
OF_70B = {"ranks": 64, "zero_stage": 3, "gradient_checkpointing": True, "tensor_parallel": 8, "kv_cache_gib": 12}
TRAINED_70B = BIRD | {"train": {"prompts_per_step": 256, "rehearsal_per_step": 256}}


@pytest.mark.parametrize(
    ("model", "data", "hardware", "refused"),
    [
        (LLAMA_8B, WITHOUT_TRAINING, {}, set()),
        (LLAMA_8B, WITHOUT_TRAINING, {"gpu_gib": 30}, {"sampling"}),
        # Recorded answers are no samples.
        (LLAMA_8B, WITHOUT_TRAINING | {"replay": {"base": {"bird": "a.jsonl"}}}, {"gpu_gib": 30}, set()),
        (
            LLAMA_8B,
            WITHOUT_TRAINING | {"policy": {"base": "llama", "supervised": {"source": "s"}}},
            {},
            {"policy.supervised"},
        ),
        (LLAMA_70B, TRAINED_70B | {"methods": {"m": {"rollout_on": "all"}}}, OF_70B, set()),
        (
            LLAMA_70B,
            TRAINED_70B | {"methods": {"m": {"rollout_on": "all"}}},
            OF_70B | {"sampling_kv_cache_gib": 72},
            {"sampling"},
        ),
        # Its stored responses are computed by the ranks, of which one could not hold 70 billion parameters.
        (LLAMA_70B, TRAINED_70B | {"methods": {"m": {"divergence": "js"}}}, OF_70B, set()),
    ],
)
def test_a_job_that_cannot_fit_is_refused(model, data, hardware, refused):
    config = load_config(data | {"hardware": {"token_budget": 24576, **hardware}})
    found = set()
    try:
        check_memory(config, model, config.hardware.gpu_gib)
    except ConfigError as error:
        found = {problem.path for problem in error.problems}
    assert found == refused


MODELS = {
    "Qwen2.5-0.5B": shape(24, 896, 151936, 4864, 14, 2, **TIED),
    "Llama-3.2-1B": shape(16, 2048, 128256, 8192, 32, 8, **TIED),
    "Qwen2.5-1.5B": shape(28, 1536, 151936, 8960, 12, 2, **TIED),
    "Qwen2.5-Math-7B": shape(28, 3584, 152064, 18944, 28, 4),
    "Llama-3.1-8B": LLAMA_8B,
    "OmniSQL-32B": QWEN_32B,
}
LARGE = {"zero_stage": 3, "gradient_checkpointing": True}
ROWS = [
    ("Qwen2.5-0.5B", {}),
    ("Llama-3.2-1B", {"gradient_checkpointing": True}),
    ("Qwen2.5-1.5B", {"gradient_checkpointing": True}),
    ("Qwen2.5-Math-7B", {"ranks": 8, **LARGE}),
    ("Llama-3.1-8B", {"ranks": 8, **LARGE}),
    ("Llama-3.1-8B", {"ranks": 8, **LARGE, "reference": True}),
    ("Llama-3.1-8B", {"ranks": 4, **LARGE, "kv_cache_gib": 12}),
    ("Llama-3.1-8B", {"ranks": 2, **LARGE, "offload_optimizer": True, "kv_cache_gib": 12}),
    ("OmniSQL-32B", {"ranks": 8, **LARGE, "offload_optimizer": True, "tensor_parallel": 4, "kv_cache_gib": 12}),
    ("OmniSQL-32B", {"ranks": 32, **LARGE, "tensor_parallel": 2, "kv_cache_gib": 12}),
]
# `ranks` has a column of its own, and `reference` stands next to the name.
UNNAMED = ("ranks", "reference")
# The training of llama-sql.yaml.
TRAIN = TrainConfig(steps=208, segment_steps=26, eval_every=52)


def test_the_page_has_the_planned_memory_and_each_row_fits_on_80_gib():
    table = []
    for name, changes in ROWS:
        model, setting = MODELS[name], keys(**changes)
        planned = [sampling_phase(model, setting), reference_phase(model, setting), *phases(model, setting)]
        assert max(phase.total for phase in planned) < 80 * 2**30
        cells = [
            name + (", with a reference model" if setting.reference else ""),
            f"{setting.hardware.ranks}",
            ", ".join(f"{key}: {value}".lower() for key, value in changes.items() if key not in UNNAMED) or "-",
            # After `start`, `generating`, `training` and `optimizer step` a phase may follow that the page leaves out.
            *(f"{phase.total / GB:.0f}" for phase in planned[:6]),
            f"{host_bytes(model, setting) / GB:.0f}",
            f"{training_bytes(model, setting, TRAIN, TRAIN.steps) / GB:.0f}",
        ]
        table.append(f"| {' | '.join(cells)} |")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    page = [line for line in lines if line.startswith(tuple(f"| {name}" for name in MODELS))]
    assert page == table, "the table should be:\n" + "\n".join(table)
