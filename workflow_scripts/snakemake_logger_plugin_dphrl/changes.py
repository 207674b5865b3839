"""Params that differ from those of the last execution, as `eta 0.2 -> 0.5` in place of Snakemake's two sets."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from snakemake.persistence import ParamsChange


def changed_keys(change: ParamsChange) -> str:
    """Each key of a block that differs, with its values before and now; a param that is no block is called `param`."""
    before, now = (sorted(map(_read, texts), key=repr) for texts in (change.only_old, change.only_new))
    return ", ".join(line for old, new in _pairs(before, now) for line in _differences(old, new))


def _read(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # such as inf, which is no literal


def _pairs(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Values of the same param before and now: blocks that share most keys, since Snakemake keeps no names."""
    left = list(now)
    for old in before:
        new = max(left, key=lambda new: _likeness(old, new), default=None)
        if _likeness(old, new):
            left.remove(new)
            yield old, new
        else:
            yield old, None
    yield from ((None, new) for new in left)


def _likeness(old: Any, new: Any) -> int:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return len(old.keys() & new.keys())
    return int(new is not None and not isinstance(old, Mapping) and not isinstance(new, Mapping))


def _differences(before: Any, now: Any, *path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(key), now.get(key), *path, key)
    elif before != now:
        yield f"{'.'.join(path) or 'param'} {before} -> {now}"
