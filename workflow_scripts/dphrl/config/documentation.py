"""The generated documentation: config/schema.json for editors, config/defaults.yaml for readers.

`make schema` rewrites them; a test compares them with the models.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml

from dphrl.config.blocks.training import PAPER_METHODS
from dphrl.config.config import Config
from dphrl.config.keys import SCHEMA, Node, block_in, resolve

FOLDER = Path(__file__).resolve().parents[3] / "config"
WIDTH = 108
HEADER = """\
# Every key with its description and its default: arXiv 2509.07430's settings for Llama-3.1-8B-Instruct on SQL.
# "Required" marks a key without a default, and its value here is an example. A configuration names only changed keys.
# Generated from workflow_scripts/dphrl/config by `make schema`: do not edit.
"""


def schema_text() -> str:
    """The JSON schema of the configuration."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA}
    return json.dumps(schema, indent=2) + "\n"


def defaults_text() -> str:
    """Every key with its default, under its description; with `policy.base` filled in it is a valid configuration."""
    required = {name: Config.model_fields[name].examples[0] for name in SCHEMA["required"]}  # type: ignore[index]
    config = Config(**required, train_dataset="bird_train", methods=PAPER_METHODS)
    # An entry of datasets or methods shows the keys that it sets; any other block shows all of its keys.
    values = config.model_dump(mode="json") | config.model_dump(mode="json", exclude_unset=True)
    keys = ("".join(f"{line}\n" for line in _key(SCHEMA, name, values[name])) for name in SCHEMA["properties"])
    return "\n".join([HEADER, *keys])


def write() -> None:
    """Rewrite both files."""
    for name, text in (("schema.json", schema_text), ("defaults.yaml", defaults_text)):
        (FOLDER / name).write_text(text(), encoding="utf-8")


def _key(block: Node, name: str, value: Any) -> Iterator[str]:
    """Lines of a key under its description. The keys of an optional block, or of an entry, are comments."""
    node = block["properties"][name]
    inner = block_in(node)
    yield from (f"# {line}" for line in wrap(_meaning(block, name), WIDTH, break_on_hyphens=False))
    is_block = inner is resolve(node)
    if inner and value:
        yield f"{name}:"
        lines = _keys(inner, value) if is_block else _yaml(value, flow=None)
        yield from (f"  {line}" for line in lines)
    else:
        yield f"{name}: {' '.join(_yaml(value, flow=True))}"
    if inner and not (is_block and value):
        # Of a key without a fixed default an example.
        fields = inner["properties"].items()
        defaults = {key: field["default"] if "default" in field else field["examples"][0] for key, field in fields}
        yield f"# {name}:" if is_block else "# Keys of an entry:"
        yield from (f"#   {line}" for line in _keys(inner, defaults))


def _keys(block: Node, values: dict[str, Any]) -> Iterator[str]:
    for name in block["properties"]:
        yield from _key(block, name, values[name])


def _meaning(block: Node, name: str) -> str:
    node = block["properties"][name]
    # pydantic leaves out a description that equals the docstring of the key's block.
    description = node.get("description") or resolve(node)["description"]
    choices = resolve(node).get("enum", ())
    required = "Required. " if name in block.get("required", ()) else ""
    return f"{required}{description}" + (f" One of: {', '.join(map(str, choices))}." if choices else "")


def _yaml(value: Any, flow: bool | None) -> list[str]:
    """Lines of YAML: in one line (True), or one for each entry (None)."""
    text = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").splitlines()
