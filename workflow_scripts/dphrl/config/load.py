"""From the keys of a configuration to a checked `Config`, or to one error that lists every problem."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dphrl.config.blocks.base import Block, block_in
from dphrl.config.checks import problems_between_keys
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, nearest, show
from dphrl.config.yaml_files import merged, read_yaml

# A default that depends on a wrong key was not computed. The wrong key is an error by itself.
_FOLLOW_UP = "default_factory_not_called"
# Allowed values in words of YAML, where pydantic names a Python type.
_BLOCK, _LIST = "a block of keys ({} has all defaults)", "a list, in brackets"
_ALLOWED = {"model_type": _BLOCK, "dict_type": _BLOCK, "list_type": _LIST, "tuple_type": _LIST}
_ALLOWED |= {"invalid-json-value": "a number, a list, a block with texts as keys, or a text (a date in quotes)"}


def load_config(data: Mapping[str, Any]) -> Config:
    """The checked configuration, with every default.

    Raises `ConfigError` with the path of each wrong key, its value, the allowed values, and the nearest key.
    """
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        # A key of several types has an error for each of them.
        by_place: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
        for each in error.errors():
            if each["type"] != _FOLLOW_UP:
                by_place.setdefault(_place(each, data), []).append(each)
        raise ConfigError([_problem(place, errors) for place, errors in by_place.items()]) from None
    if problems := problems_between_keys(config):
        raise ConfigError(problems)
    return config


def read_config(*paths: Path) -> Config:
    """`load_config` of YAML files, each of which changes the files before it; raises `ConfigError` with their names."""
    blocks = map(read_yaml, paths)
    try:
        return load_config(merged(*blocks))
    except ConfigError as error:
        raise ConfigError(error.problems, paths) from None


def _place(error: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """The keys and places in lists that lead to an error, without the types and functions that pydantic adds."""
    place = []
    for part in error["loc"]:
        try:
            data = data[part]
        except (LookupError, TypeError):
            break
        place.append(part)
    return (*place, error["loc"][-1]) if error["type"] == "missing" else tuple(place)


def _problem(place: Sequence[str | int], errors: Sequence[ErrorDetails]) -> Problem:
    path, value, kinds = _dotted(place), errors[0]["input"], {error["type"] for error in errors}
    if "extra_forbidden" in kinds:
        return _unknown_key(place, value)
    if "missing" in kinds:
        return Problem(path, "none", "this key is required, here or in a file before this one")
    # A key of two kinds of numbers has an error of each.
    messages = dict.fromkeys(_ALLOWED.get(error["type"], error["msg"]) for error in errors)
    allowed = " or ".join(re.sub(r"^Value error, |^(Input|String) should (be )?", "", text) for text in messages)
    return Problem(path, show(value), allowed, nearest(str(value), re.findall(r"'(.+?)'", allowed)))


def _unknown_key(place: Sequence[str | int], value: object) -> Problem:
    *above, key = place
    block: type[Block] = Config
    for part in above:
        # A free name and the place in a list are no keys: the block of an entry is that of its list or mapping.
        field = block.model_fields.get(str(part))
        block = (block_in(field.annotation) if field else None) or block
    siblings = sorted(block.model_fields)
    # Of two keys with one name, the one in the same block is meant, else the one in fewer blocks.
    paths = [_dotted([*above, name]) for name in siblings] + sorted(_keys(), key=lambda path: path.count("."))
    by_name = {path.rpartition(".")[2]: path for path in reversed(paths)}
    name = nearest(str(key), by_name)
    allowed = f"no such key; known here: {', '.join(siblings)}"
    return Problem(_dotted(place), show(value), allowed, by_name[name] if name else None)


def _keys(block: type[Block] = Config, path: str = "") -> Iterator[str]:
    """Every key outside of lists as a dotted path, in which <name> is a free name."""
    for name, field in block.model_fields.items():
        yield f"{path}{name}"
        inner, kind = block_in(field.annotation), get_origin(field.annotation)
        if inner and kind is not tuple:
            yield from _keys(inner, f"{path}{name}.<name>." if kind is dict else f"{path}{name}.")


def _dotted(place: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
