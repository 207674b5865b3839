"""Configurations with one change, and the problems that loading them names."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import load_config

DEFAULT = Path(__file__).resolve().parents[2] / "config" / "config.yaml"
MISSING = object()
RECORDED: dict[str, Any] = {
    "run": "recorded",
    "datasets": {"spider": {"task": "sql", "source": "spider/dev.json"}},
    "train_dataset": "spider",
    "methods": {},
    "evaluate": {"datasets": ["spider"]},
    "replay": {"base": {"spider": "answers.jsonl"}},
}


def demo() -> dict[str, Any]:
    """The demo with a third set to evaluate, without its claims and without the folder of its base model."""
    data: dict[str, Any] = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
    del data["evaluate"]["claims"], data["policy"]["base"]
    data["datasets"]["cross"] = {"task": "sql", "source": "toy"}
    data["evaluate"]["datasets"] = ["in_domain", "cross", "maths"]
    return data


def put(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with another value at a dotted path, or without it (MISSING)."""
    changed = copy.deepcopy(data)
    *parents, last = path.split(".")
    block = changed
    for parent in parents:
        block = block.setdefault(parent, {})
    if value is MISSING:
        del block[last]
    else:
        block[last] = value
    return changed


def problems(data: Any) -> dict[str, Problem]:
    """The problems of a wrong configuration by the path of the key. The text of the error has all of them."""
    with pytest.raises(ConfigError) as caught:
        load_config(data)
    for problem in caught.value.problems:
        assert str(problem) in str(caught.value)
    return {problem.path: problem for problem in caught.value.problems}
