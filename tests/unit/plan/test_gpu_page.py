"""The table of docs/gpu.md is what the plan says."""

import json
from pathlib import Path
from typing import Any

import pytest

from dphrl.cli import main
from dphrl.config.blocks.training import TrainConfig
from dphrl.plan.memory import (
    GB,
    ModelShape,
    Setting,
    host_bytes,
    phases,
    reference_phase,
    sampling_phase,
    training_bytes,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu.md"
_QWEN: dict[str, Any] = {"model_type": "qwen2", "vocab_size": 151_936, "tie_word_embeddings": True}
_LLAMA: dict[str, Any] = {"model_type": "llama", "vocab_size": 128_256}
CONFIGS: dict[str, dict[str, Any]] = {
    name: {
        **family,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": feed_forward,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
    }
    for name, family, layers, hidden, feed_forward, heads, keys in (
        ("Qwen2.5-0.5B", _QWEN, 24, 896, 4864, 14, 2),
        ("Llama-3.2-1B", {**_LLAMA, "tie_word_embeddings": True, "head_dim": 64}, 16, 2048, 8192, 32, 8),
        ("Qwen2.5-1.5B", _QWEN, 28, 1536, 8960, 12, 2),
        ("Qwen2.5-Math-7B", {"model_type": "qwen2", "vocab_size": 152_064}, 28, 3584, 18_944, 28, 4),
        ("Llama-3.1-8B", _LLAMA, 32, 4096, 14_336, 32, 8),
        ("OmniSQL-32B", {"model_type": "qwen2", "vocab_size": 152_064}, 64, 5120, 27_648, 40, 8),
    )
}
MODELS = {name: ModelShape.from_config(config) for name, config in CONFIGS.items()}
LARGE = {"zero_stage": 3, "checkpointing": True}
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Qwen2.5-0.5B", {}),
    ("Llama-3.2-1B", {"checkpointing": True}),
    ("Qwen2.5-1.5B", {"checkpointing": True}),
    ("Qwen2.5-Math-7B", {"ranks": 8, **LARGE}),
    ("Llama-3.1-8B", {"ranks": 8, **LARGE}),
    ("Llama-3.1-8B", {"ranks": 8, **LARGE, "reference": True}),
    ("Llama-3.1-8B", {"ranks": 4, **LARGE, "kv_cache_gib": 12}),
    ("Llama-3.1-8B", {"ranks": 2, **LARGE, "offload": True, "kv_cache_gib": 12}),
    ("OmniSQL-32B", {"ranks": 8, **LARGE, "offload": True, "tensor_parallel": 4, "kv_cache_gib": 12}),
    ("OmniSQL-32B", {"ranks": 32, **LARGE, "tensor_parallel": 2, "kv_cache_gib": 12}),
]
# The training of llama-sql.yaml.
TRAIN = TrainConfig(steps=208, segment_steps=26, eval_every=52)
KEYS = {
    "zero_stage": "zero_stage",
    "checkpointing": "gradient_checkpointing",
    "offload": "offload_optimizer",
    "tensor_parallel": "tensor_parallel",
    "kv_cache_gib": "kv_cache_gib",
}


def setting_of(given: dict[str, Any]) -> Setting:
    """The setting; sampling jobs have the same key-value cache."""
    return Setting(**given, sampling_kv_cache_gib=given.get("kv_cache_gib", 24))


def row(name: str, given: dict[str, Any]) -> str:
    """One line of the table."""
    shape, setting = MODELS[name], setting_of(given)
    found = {phase.name: phase.total / GB for phase in phases(shape, setting)}
    alone = [phase.total / GB for phase in (sampling_phase(shape, setting), reference_phase(shape, setting))]
    keys = [f"{KEYS[key]}: {str(value).lower()}" for key, value in given.items() if key in KEYS]
    memory = [*alone, found["start"], found["generating"], found["training"], found["optimizer step"]]
    cells = [
        name + (", with a reference model" if setting.reference else ""),
        str(setting.ranks),
        ", ".join(keys) or "-",
        *(f"{value:.0f}" for value in memory),
        f"{host_bytes(shape, setting) / GB:.0f}",
        f"{training_bytes(shape, setting, TRAIN, TRAIN.steps) / GB:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_page_has_the_planned_table() -> None:
    expected = [row(name, given) for name, given in ROWS]
    found = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith(tuple(f"| {m}" for m in MODELS))
    ]
    assert found == expected, "the table should be:\n" + "\n".join(expected)


def test_the_command_prints_steps_and_operations_and_no_hours_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama/config.json").write_text(json.dumps(CONFIGS["Llama-3.1-8B"]))
    (tmp_path / "my.yaml").write_text(
        "{run: my, policy: {base: llama}, datasets: {d: {task: sql, source: d.json, comparison: bird}},"
        " train_dataset: d, evaluate: {datasets: [d]},"
        " methods: {grpo: {rollout_on: all}, dph_f: {divergence: forward_kl}},"
        " train: {steps: 104, segment_steps: 26, eval_every: 52, seeds: [1, 2]},"
        " hardware: {ranks: 8, zero_stage: 3, gradient_checkpointing: true}}\n"
    )
    assert main(["plan", "my.yaml", "--gpu-gib", "80", "--slots", "8"]) == 0
    out = capsys.readouterr().out
    assert "\n  dph_f: 2 seeds, 104 steps (128 questions x 16 rollouts, 256 stored responses)\n" in out
    assert "\n  d: 3,000 and 400 (assumed for task sql)\n" in out
    assert main(["plan", "my.yaml", "--slots", "2"]) == 1
    assert "a job takes 8 GPUs at one time, and --slots has 2" in capsys.readouterr().out
    assert "a plan uses the measured lengths of the training set" in out


@pytest.mark.parametrize(("name", "given"), ROWS)
def test_every_row_fits_on_80_gib(name: str, given: dict[str, Any]) -> None:
    shape, setting = MODELS[name], setting_of(given)
    for phase in [*phases(shape, setting), reference_phase(shape, setting), sampling_phase(shape, setting)]:
        assert phase.total < 80 * 2**30, phase
