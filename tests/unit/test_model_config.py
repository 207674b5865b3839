"""A config.json that nobody can compute with is named, in every command that reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from dphrl.model_config import model_settings


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", "expected an object, found list"),
        ("[" * 100_000, "recursion limit"),
        (json.dumps({"num_attention_heads": 0}), "num_attention_heads is 0, expected 1 to"),
        (json.dumps({"head_dim": "x"}), "head_dim is 'x', expected 1 to"),
        (json.dumps({"vocab_size": 10**400}), "vocab_size is 1000.*, expected 1 to"),
    ],
    ids=lambda text: text[:30],
)
def test_a_config_without_usable_sizes_is_named(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=rf"config\.json: .*{problem}.*: download the model again"):
        model_settings(file)


@pytest.mark.parametrize("settings", [{}, {"head_dim": None}, {"intermediate_size": [64, 128]}, {"hidden_size": 64}])
def test_other_configs_are_taken_as_they_are(tmp_path: Path, settings: dict[str, Any]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings))
    assert model_settings(file) == settings
