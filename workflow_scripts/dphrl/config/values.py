"""The values that a configuration may hold, whatever its keys are: those of JSON, in a tree of limited size."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dphrl.config.errors import Problem, show

_MOST_VALUES: Final = 100_000
_DEEPEST: Final = 50
_MOST_BITS: Final = 63


def odd_values(data: Mapping[Any, Any]) -> list[Problem]:
    """For each top-level key the first value below it that no configuration may hold.

    YAML also has dates, sets, blocks that contain themselves, and aliases by which a short file is a tree without end;
    no other check could read such a tree.
    """
    problems = []
    for key, value in data.items():
        values_left = iter(range(_MOST_VALUES))
        problem = _odd_key("", key) or next(_odd(str(key), value, 0, values_left), None)
        problems += [problem] if problem else []
    return problems


def _odd(path: str, value: Any, depth: int, values_left: Iterator[int]) -> Iterator[Problem]:
    if next(values_left, None) is None:
        given = f"more than {_MOST_VALUES} values"
        yield Problem(_first(path), given, "fewer: do aliases (&, *) repeat each other?")
    elif depth > _DEEPEST:
        given = f"blocks and lists in more than {_DEEPEST} others"
        yield Problem(_first(path), given, "fewer: does an alias (&, *) contain itself?")
    elif isinstance(value, dict):
        for key, inner in value.items():
            odd_key = _odd_key(path, key)
            yield from [odd_key] if odd_key else _odd(f"{path}.{key}", inner, depth + 1, values_left)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _odd(f"{path}[{index}]", inner, depth + 1, values_left)
    elif isinstance(value, str):
        if not _is_unicode(value):
            yield Problem(path, show(value), "valid Unicode: the text holds a lone surrogate")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(path, show(value), "a finite number")
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            yield Problem(path, f"an integer of {value.bit_length()} bits", f"one of at most {_MOST_BITS} bits")
    elif value is not None:
        allowed = "text, a number, true, false, null, a list or a block of keys; a date is text in quotes"
        yield Problem(path, f"a value of the type {type(value).__name__}", allowed)


def _odd_key(path: str, key: Any) -> Problem | None:
    if isinstance(key, str):
        return None if _is_unicode(key) else Problem(path, f"the key {show(key)}", "valid Unicode")
    allowed = "a key that is text, in quotes if need be: YAML reads yes, no, on and off as true and false"
    return Problem(path, f"a key of the type {type(key).__name__}", allowed)


def _first(path: str) -> str:
    """The top-level key of a path."""
    return path.partition(".")[0].partition("[")[0]


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
