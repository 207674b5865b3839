"""The generated documentation: config/schema.json for editors, config/defaults.yaml for readers.

`make schema` rewrites them; a test compares them with the models.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dphrl.config.blocks.base import Block, block_in
from dphrl.config.blocks.training import PAPER_METHODS
from dphrl.config.config import Config

FOLDER = Path(__file__).resolve().parents[3] / "config"
WIDTH = 108
HEADER = """\
# Every key with its description and its default: arXiv 2509.07430's settings for Llama-3.1-8B-Instruct on SQL.
# "Required" marks a key without a default, and its value here is an example. A configuration names only changed keys.
# Generated from workflow_scripts/dphrl/config by `make schema`: do not edit.
"""


def schema_text() -> str:
    """The JSON schema of the configuration."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


def defaults_text() -> str:
    """Every key with its default, under its description; with `policy.base` filled in it is a valid configuration."""
    fields = Config.model_fields
    required = {name: field.examples[0] for name, field in fields.items() if field.is_required() and field.examples}
    config = Config(**required, train_dataset="bird_train", methods=PAPER_METHODS)
    # An entry of datasets or methods shows the keys that it sets; any other block shows all of its keys.
    values = config.model_dump(mode="json") | config.model_dump(mode="json", exclude_unset=True)
    keys = ("".join(f"{line}\n" for line in _key(name, field, values[name])) for name, field in fields.items())
    return "\n".join([HEADER, *keys])


def write() -> None:
    """Rewrite both files."""
    for name, text in (("schema.json", schema_text), ("defaults.yaml", defaults_text)):
        (FOLDER / name).write_text(text(), encoding="utf-8")


def _key(name: str, field: FieldInfo, value: Any) -> Iterator[str]:
    """Lines of a key under its description. The keys of an optional block, or of an entry, are comments."""
    inner, choices = block_in(field.annotation), _choices(field.annotation)
    meaning = f"{'Required. ' if field.is_required() else ''}{field.description}"
    if choices[1:]:
        meaning += f" One of: {', '.join(map(str, choices))}."
    yield from (f"# {line}" for line in wrap(meaning, WIDTH, break_on_hyphens=False))
    is_block = get_origin(field.annotation) not in (dict, tuple)
    if inner and value:
        yield f"{name}:"
        lines = _keys(inner, value) if is_block else _yaml(value, flow=None)
        yield from (f"  {line}" for line in lines)
    else:
        yield f"{name}: {' '.join(_yaml(value, flow=True))}"
    if inner and not (is_block and value):
        yield f"# {name}:" if is_block else "# Keys of an entry:"
        # Of a key without a fixed default an example.
        defaults = {
            key: (field.examples or [None])[0] if field.is_required() or field.default_factory else field.default
            for key, field in inner.model_fields.items()
        }
        yield from (f"#   {line}" for line in _keys(inner, to_jsonable_python(defaults)))


def _keys(block: type[Block], values: dict[str, Any]) -> Iterator[str]:
    for name, field in block.model_fields.items():
        yield from _key(name, field, values[name])


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The fixed values of a key, besides null; empty for a key that has other values."""
    types = [each for each in get_args(annotation) if each is not NoneType]
    if get_origin(annotation) is Literal:
        return tuple(types)
    return _choices(types[0]) if len(types) == 1 else ()


def _yaml(value: Any, flow: bool | None) -> list[str]:
    """Lines of YAML: in one line (True), or one for each entry (None)."""
    text = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").splitlines()
