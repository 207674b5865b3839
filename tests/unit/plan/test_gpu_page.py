"""The table of docs/gpu.md is what the plan says."""

from pathlib import Path
from typing import Any

import pytest

from dphrl.config.blocks.sampling import HardwareConfig
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
LARGE = {"zero_stage": 3, "gradient_checkpointing": True}
ROWS: list[tuple[str, dict[str, Any]]] = [
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
# The training of llama-sql.yaml.
TRAIN = TrainConfig(steps=208, segment_steps=26, eval_every=52)


def setting_of(keys: dict[str, Any]) -> Setting:
    """The setting with these keys of the hardware, and with a reference model if they say so."""
    hardware = {key: value for key, value in keys.items() if key != "reference"}
    return Setting(HardwareConfig(**hardware), reference=keys.get("reference", False))


def row(name: str, given: dict[str, Any]) -> str:
    """One line of the table."""
    shape, setting = MODELS[name], setting_of(given)
    found = {phase.name: phase.total / GB for phase in phases(shape, setting)}
    alone = [phase.total / GB for phase in (sampling_phase(shape, setting), reference_phase(shape, setting))]
    keys = [f"{key}: {str(value).lower()}" for key, value in given.items() if key not in ("ranks", "reference")]
    memory = [*alone, found["start"], found["generating"], found["training"], found["optimizer step"]]
    cells = [
        name + (", with a reference model" if setting.reference else ""),
        str(setting.hardware.ranks),
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


@pytest.mark.parametrize(("name", "given"), ROWS)
def test_every_row_fits_on_80_gib(name: str, given: dict[str, Any]) -> None:
    shape, setting = MODELS[name], setting_of(given)
    for phase in [*phases(shape, setting), reference_phase(shape, setting), sampling_phase(shape, setting)]:
        assert phase.total < 80 * 2**30, phase
