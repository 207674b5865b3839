"""The keys of a configuration, found in its JSON schema: for error messages and for the generated documentation."""

from collections.abc import Iterator, Sequence
from typing import Any

from dphrl.config.config import Config

Node = dict[str, Any]
SCHEMA: Node = Config.model_json_schema()


def resolve(node: Node) -> Node:
    """The node that a reference or `... | null` leads to; any other node itself."""
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
    current: Node | None = node
    while current is not None and "properties" not in resolve(current):
        current = entry(current)
    return None if current is None else resolve(current)


def node_at(location: Sequence[str | int]) -> Node:
    """The node at a pydantic error location; empty where the schema has none."""
    if location[-1:] == ("[key]",):
        return dict(resolve(node_at(location[:-2])).get("propertyNames", {}))
    node = SCHEMA
    for part in location:
        node = resolve(node).get("properties", {}).get(part) or entry(node) or {}
    return node


def known_paths(block: Node = SCHEMA, prefix: str = "") -> Iterator[str]:
    """Every known key as a dotted path; a free name is written as <name>, the place in a list as []."""
    for name, node in block["properties"].items():
        path = prefix + name
        yield path
        current: Node | None = node
        while current is not None and "properties" not in resolve(current):
            path += "[]" if "items" in resolve(current) else ".<name>"
            current = entry(current)
        if current is not None:
            yield from known_paths(resolve(current), f"{path}.")
