"""The keys of a configuration, by its JSON schema: for the generated documentation, and to name the nearest key."""

from collections.abc import Iterator, Sequence
from typing import Any

from dphrl.config.config import Config

Node = dict[str, Any]
SCHEMA: Node = Config.model_json_schema()


def resolve(node: Node) -> Node:
    """Follow a `$ref` of the JSON schema, unwrap an optional type `X | null`; other nodes come back as they are."""
    if "$ref" in node:
        return resolve(SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    return resolve(options[0]) if len(options) == 1 else node


def entry(node: Node) -> Node | None:
    """The node of an entry of a mapping or a list; None for any other node."""
    node = resolve(node)
    candidates = [node.get("items"), node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    return next((candidate for candidate in candidates if isinstance(candidate, dict)), None)


def block_in(node: Node) -> Node | None:
    """The block of keys in a node, at any depth of mappings and lists; None if there is none."""
    node = resolve(node)
    if "properties" in node:
        return node
    inner = entry(node)
    return block_in(inner) if inner else None


def block_at(location: Sequence[str | int]) -> Node:
    """The block at a place of a configuration, such as ("methods", "grpo")."""
    node = SCHEMA
    for part in location:
        node = resolve(node).get("properties", {}).get(part) or entry(node) or {}
    return resolve(node)


def known_keys(node: Node = SCHEMA, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every key as a dotted path, with its node; a free name is written as <name>, the place in a list as []."""
    node = resolve(node)
    for name, inner in node.get("properties", {}).items():
        key = f"{path}.{name}".removeprefix(".")
        yield key, inner
        yield from known_keys(inner, key)
    if "properties" not in node and (each := entry(node)):
        yield from known_keys(each, path + ("[]" if "items" in node else ".<name>"))
