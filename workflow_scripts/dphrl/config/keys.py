"""The keys of a configuration, by its JSON schema: for generated documentation and for errors of wrong keys."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from dphrl.config.config import Config
from dphrl.config.errors import Problem, nearest, show

Node = dict[str, Any]
SCHEMA: Node = Config.model_json_schema()
# Similarity of two keys that differ in one letter.
_LETTER = 0.9
# The patterns of names in words.
_NAMES = {
    r"^[A-Za-z][A-Za-z0-9_]*$": "a name of letters, digits and _, a letter first",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": "a name of letters, digits, ., _ and -, a letter or digit first",
    r"^.+\.py:[A-Za-z_]\w*$": "FILE.py:NAME, a function in a Python file",
}


def resolve(node: Node) -> Node:
    """Follow a `$ref` of the JSON schema, unwrap an optional type `X | null`; other nodes come back as they are."""
    if "$ref" in node:
        return resolve(SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    return resolve(options[0]) if len(options) == 1 else node


def is_nullable(node: Node) -> bool:
    """Whether null is a value of the node itself."""
    return {"type": "null"} in node.get("anyOf", ())


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


def node_at(location: Sequence[str | int]) -> Node:
    """The node at a pydantic error location; empty if it is not in the schema."""
    if location[-1:] == ("[key]",):
        return dict(resolve(node_at(location[:-2])).get("propertyNames", {}))
    node = SCHEMA
    for part in location:
        node = resolve(node).get("properties", {}).get(part) or entry(node) or {}
    return node


def known_keys(node: Node = SCHEMA, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every key as a dotted path, with its node; a free name is written as <name>, the place in a list as []."""
    node = resolve(node)
    for name, inner in node.get("properties", {}).items():
        key = f"{path}.{name}".removeprefix(".")
        yield key, inner
        yield from known_keys(inner, key)
    if "properties" not in node and (each := entry(node)):
        yield from known_keys(each, path + ("[]" if "items" in node else ".<name>"))


def known_paths() -> Iterator[str]:
    """The paths of all keys."""
    return (path for path, _ in known_keys())


def problem_of(details: ErrorDetails) -> Problem:
    """An error of pydantic as a problem: the key in a dotted path, the allowed values in words, the nearest key."""
    location, kind, value = details["loc"], details["type"], details["input"]
    context, path, node = details.get("ctx", {}), _dotted(details["loc"]), node_at(details["loc"])
    if kind == "extra_forbidden":
        key, siblings = str(location[-1]), sorted(resolve(node_at(location[:-1]))["properties"])
        allowed = f"no such key; known here: {', '.join(siblings)}"
        return Problem(path, f"{key}: {show(value)}", allowed, _nearest_key(key, path, siblings))
    if kind == "key_without_effect":
        return Problem(f"{path}.{context['key']}", show(value[context["key"]]), details["msg"])
    description = node.get("description") if location else None
    if kind == "missing":
        return Problem(path, "nothing", "this key is required" + (f": {description}" if description else ""))
    if kind in ("model_type", "dict_type"):
        allowed = "a block of keys (leave the key out to have the defaults)"
    elif kind == "value_error":
        allowed = str(context["error"])
    elif kind in ("tuple_type", "list_type"):
        allowed = f"a list: [{value}]" if isinstance(value, str | int | float) else "a list"
    elif kind == "string_pattern_mismatch" and context["pattern"] in _NAMES:
        allowed = _NAMES[context["pattern"]]
    else:
        allowed = details["msg"].removeprefix("Input should be ").removeprefix("String should ")
    choices = [str(each) for form in node.get("anyOf", [node]) for each in resolve(form).get("enum", ())]
    choice = nearest(value, choices) if kind == "literal_error" and isinstance(value, str) else None
    return Problem(path, show(value), allowed + (f" -- {description}" if description else ""), choice)


def _dotted(location: tuple[str | int, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]")
    return text.removeprefix(".")


def _nearest_key(key: str, path: str, siblings: list[str]) -> str | None:
    """The path of the nearest key: a sibling with one other letter, else the same key of another block, else a similar
    sibling, else a similar key anywhere.
    """
    if close := get_close_matches(key, siblings, n=1, cutoff=_LETTER):
        return path.removesuffix(key) + close[0]
    by_leaf: dict[str, str] = {}
    for known_path in sorted(known_paths(), key=lambda dotted: dotted.count(".")):
        by_leaf.setdefault(known_path.rpartition(".")[2], known_path)
    sibling = nearest(key, siblings)
    if key not in by_leaf and sibling is not None:
        return path.removesuffix(key) + sibling
    leaf = key if key in by_leaf else nearest(key, by_leaf)
    return by_leaf[leaf] if leaf is not None else None
