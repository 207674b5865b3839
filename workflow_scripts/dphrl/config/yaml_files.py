"""Reading the files of a configuration, and merging them in their order."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from dphrl.config.errors import ConfigError, Problem, show

Keys = Mapping[str, Any]


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


def read_yaml(path: Path) -> dict[str, Any]:
    """The block of keys in a YAML file. Raises `ConfigError` if there is none, or if a key stands twice in a block."""
    try:
        with path.open(encoding="utf-8") as stream:
            block = _Loader(stream).get_single_data()
    except OSError as error:
        raise ConfigError([Problem(str(path), error.strerror or str(error), "a YAML file that can be read")]) from None
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is text that is not UTF-8, a number of thousands of digits, or an impossible date.
        allowed = "YAML: one block of keys, each key once"
        raise ConfigError([Problem(str(path), " ".join(str(error).split()), allowed)]) from None
    if not isinstance(block, dict):
        raise ConfigError([Problem(str(path), show(block), "a block of keys (run: ..., datasets: ...)")])
    return block


def merged(*blocks: Keys) -> dict[str, Any]:
    """One block of all: a later value wins, inner blocks are merged, and null removes an inner block.

    A key keeps its place in the first block that has it. Without a null, Snakemake merges its files to the same block.
    """
    return reduce(_merged, blocks, {})


def _merged(earlier: Keys, later: Keys) -> dict[str, Any]:
    block = dict(earlier)
    for key, value in later.items():
        before = block.get(key)
        if isinstance(value, Mapping):
            block[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        elif value is None and isinstance(before, Mapping):
            del block[key]
        else:
            block[key] = value
    return block
