"""The generated schema, defaults and table of blocks agree with the models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dphrl.config.blocks.base import Block
from dphrl.config.documentation import defaults_text, schema_text
from dphrl.config.load import load_config

FOLDER = Path(__file__).resolve().parents[3] / "config"


def blocks(block: type[Block] = Block) -> Iterator[type[Block]]:
    for derived in block.__subclasses__():
        yield derived
        yield from blocks(derived)


@pytest.mark.parametrize(
    ("name", "text"),
    [("schema.json", schema_text), ("defaults.yaml", defaults_text)],
)
def test_the_committed_files_are_what_the_models_give(name: str, text: Any) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == text(), f"config/{name} is out of date: run `make schema`"


@pytest.mark.parametrize("block", list(blocks()), ids=lambda block: block.__name__)
def test_every_key_is_described_and_no_unknown_key_is_accepted(block: type[Block]) -> None:
    for name, field in block.model_fields.items():
        assert field.description, f"{block.__name__}.{name} has no description"
    assert block.model_config.get("extra") == "forbid"
    assert block.model_config.get("frozen") is True


def test_the_documented_defaults_are_the_defaults() -> None:
    documented = yaml.safe_load(defaults_text())
    documented["policy"]["base"] = "model"
    required = {"run", "datasets", "train_dataset"}
    least = {key: documented[key] for key in required} | {"policy": {"base": "model"}}
    assert load_config(documented) == load_config(least)


def test_the_embedded_default_fits_the_schema() -> None:
    schema = json.loads(schema_text())
    data = yaml.safe_load((FOLDER / "config.yaml").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    assert not list(validator.iter_errors(data))
    assert list(validator.iter_errors(data | {"unknown": 1}))
