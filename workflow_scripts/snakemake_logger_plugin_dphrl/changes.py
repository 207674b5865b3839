"""Params that differ from those of the last execution, as `eta 0.2 -> 0.5` in place of Snakemake's two sets."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from snakemake.persistence import ParamsChange


def changed_keys(change: ParamsChange) -> str:
    """Each key that differs, with its values before and now; a param that is no block is called `param`."""
    before, now = _leaves(change.only_old), _leaves(change.only_new)
    changed = [key for key in sorted({*before, *now}) if before[key] != now[key]]
    return ", ".join(f"{key} {' | '.join(before[key])} -> {' | '.join(now[key])}" for key in changed)


def _leaves(params: Iterable[str]) -> defaultdict[str, list[str]]:
    """The values of each key. Snakemake keeps no names of params, so two changed blocks can have one key."""
    leaves = defaultdict[str, list[str]](list)
    for text in sorted(params):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text  # such as inf, which is no literal
        for path, leaf in _walk(value):
            leaves[".".join(path) or "param"].append(str(leaf))
    return leaves


def _walk(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _walk(inner, *path, key)
    else:
        yield path, value
