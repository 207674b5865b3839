"""Files of a configuration: reading and merging them in their order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from dphrl.config.errors import ConfigError, OverlayError, Problem, show
from dphrl.config.keys import SCHEMA, Node, entry, is_nullable, resolve

Files = Mapping[Path, Any]


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a block; other loaders silently take the last value."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """The node of a block before `<<` merges keys into it, which may repeat keys of the block."""
        node = super().compose_mapping_node(anchor)
        marks: dict[str, yaml.Mark] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            first = marks.setdefault(key.value, key.start_mark)
            if first is not key.start_mark:
                text = f"the key {show(key.value)}"
                raise yaml.composer.ComposerError(text, first, "is there a second time", key.start_mark)
        return node


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises `ConfigError` if it cannot be read, or if a key stands twice in a block."""
    try:
        with path.open(encoding="utf-8") as stream:
            return _Loader(stream).get_single_data()
    except OSError as error:
        raise ConfigError([Problem(str(path), error.strerror or str(error), "a YAML file that can be read")]) from None
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is text that is not UTF-8, a number of thousands of digits, or an impossible date.
        allowed = "YAML: one block of keys, each key once"
        raise ConfigError([Problem(str(path), " ".join(str(error).split()), allowed)]) from None


def read_files(paths: Iterable[Path]) -> Files:
    """The content of each file, in the order in which they are merged.

    Raises:
        ConfigError: a file cannot be read, or removes an entry that is in no earlier file.
    """
    files = {path: read_yaml(path) for path in paths}
    before: dict[str, Any] = {}
    for path, data in files.items():
        if isinstance(data, Mapping):
            # Without a training set, `load_config` says that a file is missing.
            problems = list(_removed_too_early(data, before)) if is_complete({**before, **data}) else []
            if problems:
                # The first line of the error names a single file.
                name = str(path) if len(files) > 1 else ""
                raise ConfigError([replace(problem, file=name) for problem in problems])
            before = merged(before, data)
    return files


def is_complete(data: Mapping[str, Any]) -> bool:
    """Whether a configuration names a training set, or datasets without removing any; else it only changes another."""
    datasets = data.get("datasets")
    whole = all(datasets.values()) if isinstance(datasets, Mapping) else True
    return "train_dataset" in data or bool(datasets and whole)


def content(files: Files) -> Any:
    """One configuration from all files: blocks are merged key by key, and a later file wins."""
    return reduce(merged, files.values(), {})


def merged(earlier: Any, later: Any) -> Any:
    """The later value. Two blocks are merged key by key; a key of both keeps its place in the earlier block.

    Snakemake's `update_config` does the same, but an installation for `dphrl plan` alone lacks Snakemake.
    """
    if not isinstance(later, Mapping):
        return later
    if not later:
        return earlier
    block = earlier if isinstance(earlier, Mapping) else {}
    return {**block, **{key: merged(block.get(key, {}), value) for key, value in later.items()}}


def without_removed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the blocks and the entries with a free name that are null."""
    return _without(data, {path for path, _ in _removals(data)})


def name_files(error: ConfigError, files: Files) -> ConfigError:
    """The error with all files in its first line; of several files, each problem names the last one with its key."""
    names = list(map(str, files))
    if isinstance(error, OverlayError):
        return OverlayError(names)
    problems = [_locate(problem, files) for problem in error.problems] if len(files) > 1 else error.problems
    return ConfigError(problems, ", ".join(names))


def _locate(problem: Problem, files: Files) -> Problem:
    """The problem with the last file that contains its key, or the longest part of the path to the key."""
    if problem.file or problem.is_default:
        return problem
    keys = problem.path.partition("[")[0].split(".")
    depths = {path: _depth(data, keys) for path, data in files.items()}
    last = max(reversed(depths), key=depths.__getitem__, default=None)
    return replace(problem, file=str(last)) if last is not None and depths[last] else problem


def _depth(data: Any, keys: list[str]) -> int:
    """The number of keys that exist, each in the block of the key before."""
    first, *rest = keys
    if not isinstance(data, Mapping) or first not in data:
        return 0
    return 1 + (_depth(data[first], rest) if rest else 0)


def _removals(data: Mapping[str, Any], node: Node = SCHEMA) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Paths of the blocks (False) and of the entries with a free name (True) that are null, which removes them."""
    properties = resolve(node).get("properties", {})
    for key, value in data.items():
        named = key not in properties
        inner = (entry(node) or {}) if named else properties[key]
        if isinstance(value, Mapping):
            yield from (((key, *path), is_named) for path, is_named in _removals(value, inner))
        elif value is None and not is_nullable(inner) and (inner if named else resolve(inner).get("type") == "object"):
            yield (key,), named


def _removed_too_early(data: Mapping[str, Any], before: Any) -> Iterator[Problem]:
    """Null entries that are in no earlier file: their author meant an entry without keys, not a removal."""
    allowed = "a block of keys ({}: all defaults). null removes an entry of an earlier file, and none has this one"
    for path, is_named in _removals(data):
        if is_named and _depth(before, list(path)) < len(path):
            yield Problem(".".join(path), "null", allowed)


def _without(data: Mapping[str, Any], paths: set[tuple[str, ...]]) -> dict[str, Any]:
    kept = {key: value for key, value in data.items() if (key,) not in paths}
    inner = {key: {path[1:] for path in paths if path[0] == key and len(path) > 1} for key in kept}
    return {key: _without(value, inner[key]) if inner[key] else value for key, value in kept.items()}
