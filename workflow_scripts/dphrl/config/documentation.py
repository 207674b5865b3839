"""The documented forms of the configuration: config/schema.json for editors, config/defaults.yaml for readers.

`python -m dphrl.config.documentation` rewrites both; a test holds them to the models.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dphrl.config.config import Config
from dphrl.config.keys import block_in, is_block, plain

FOLDER = Path(__file__).resolve().parents[3] / "config"
WIDTH = 116
HEADER = """\
# Every key with its description and its default: arXiv 2509.07430's settings for Llama-3.1-8B-Instruct on SQL.
# "required" marks the keys without a default; what stands there is an example. A configuration names only what differs.
# Generated from workflow_scripts/dphrl/config by `make schema`; not to be edited.
"""


def schema_text() -> str:
    """The JSON schema of the configuration."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


def defaults_text() -> str:
    """Every key with its default, under its description; with `policy.base` filled in it is a valid configuration."""
    return HEADER + "".join(f"{line}\n" if line else "\n" for line in _block(Config, None, 0))


def _block(block: type[BaseModel], values: BaseModel | None, depth: int) -> Iterator[str]:
    for name, field in block.model_fields.items():
        if depth == 0:
            yield ""
        yield from _comment(_meaning(field), depth)
        value = getattr(values, name) if values is not None else _default(field)
        inner, annotation = block_in(field.annotation), plain(field.annotation)
        if inner is None:
            yield _line(depth, f"{name}: {_flow(value)}")
        elif is_block(annotation) and isinstance(value, BaseModel):
            yield _line(depth, f"{name}:")
            yield from _block(inner, value, depth + 1)
        elif is_block(annotation):
            yield _line(depth, f"{name}: {_flow(value)}")
            yield _line(depth, f"# {name}:")
            yield from (
                f"# {line}" if not line.startswith("#") else f"#{line}" for line in _block(inner, inner(), depth + 1)
            )
        else:
            yield from _keys(inner, depth)
            yield from _entries(name, value, depth)


def _entries(name: str, value: Any, depth: int) -> Iterator[str]:
    if not value:
        yield _line(depth, f"{name}: {_flow(value)}")
        return
    yield _line(depth, f"{name}:")
    for key, entry in value.items():
        given = entry.model_dump(mode="json", exclude_unset=True) if isinstance(entry, BaseModel) else entry
        yield _line(depth + 1, f"{key}: {_flow(given)}")


def _keys(block: type[BaseModel], depth: int) -> Iterator[str]:
    """The keys of a free-named entry, as comments: its values stand in the entries themselves."""
    yield from _comment("Keys of an entry:", depth)
    for name, field in block.model_fields.items():
        default = (
            "" if field.is_required() or field.default is PydanticUndefined else f" (default: {_flow(field.default)})"
        )
        yield from _comment(f"{name}: {_meaning(field)}{default}", depth, indent="  ")


def _default(field: FieldInfo) -> Any:
    if field.is_required():
        return field.examples[0] if field.examples else None
    return field.get_default(call_default_factory=True, validated_data={})


def _meaning(field: FieldInfo) -> str:
    annotation = plain(field.annotation)
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    parts = ["Required." if field.is_required() else "", field.description or ""]
    if len(choices) > 1:
        parts.append(f"One of: {', '.join(map(str, choices))}.")
    return " ".join(part for part in parts if part)


def _comment(text: str, depth: int, indent: str = "") -> Iterator[str]:
    for number, line in enumerate(wrap(text, WIDTH - 2 * depth - len(indent))):
        yield _line(depth, f"# {indent}{'  ' if indent and number else ''}{line}")


def _line(depth: int, text: str) -> str:
    return "  " * depth + text


def _flow(value: Any) -> str:
    data = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=10_000).removesuffix("...\n").strip()


def main() -> None:
    """Rewrite both files."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "schema.json").write_text(schema_text(), encoding="utf-8")
    (FOLDER / "defaults.yaml").write_text(defaults_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
