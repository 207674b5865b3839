"""From the keys of a configuration to a checked `Config`, or to one error that lists every problem."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dphrl.config.checks import problems_between_blocks
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, nearest, show
from dphrl.config.keys import block_at, known_keys
from dphrl.config.yaml_files import merged, read_yaml

# A default that depends on a wrong key was not computed. The wrong key is an error by itself.
_FOLLOW_UP = "default_factory_not_called"
# Allowed values in words of YAML, where pydantic names a Python type.
_BLOCK = "a block of keys ({} has all defaults)"
_LIST = "a list, in brackets"
_ALLOWED = {"model_type": _BLOCK, "dict_type": _BLOCK, "list_type": _LIST, "tuple_type": _LIST}
# The digests of the configurations that a run was planned with.
_PLANNED = "DPHRL_PLANNED"


def load_config(data: Mapping[str, Any]) -> Config:
    """The checked configuration, with every default.

    Raises `ConfigError` with the path of each wrong key, its value, the allowed values, and the nearest key.
    """
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError([_problem(each) for each in error.errors() if each["type"] != _FOLLOW_UP]) from None
    if problems := problems_between_blocks(config):
        raise ConfigError(problems)
    return config


def read_config(*paths: Path) -> Config:
    """`load_config` of YAML files, each of which changes the files before it; raises `ConfigError` with their names."""
    blocks = map(read_yaml, paths)
    try:
        return load_config(merged(*blocks))
    except ConfigError as error:
        raise ConfigError(error.problems, paths) from None


def check_planned(data: Mapping[str, Any], plans: bool) -> None:
    """Raise `ConfigError` in a job whose configuration was edited since the run was planned.

    A submitted job reads the files again, and Snakemake would record its results under the params of before.

    Args:
        data: the configuration as its files have it, without defaults, which may depend on the machine.
        plans: whether this process plans the run. It leaves the digest to its jobs, in their environment.
    """
    digest = hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
    # A run has several configurations where a workflow imports this one several times.
    planned = os.environ.get(_PLANNED, "").split()
    if plans:
        os.environ[_PLANNED] = " ".join(dict.fromkeys([*planned, digest]))
    elif planned and digest not in planned:
        allowed = "the configuration that this run was planned with: its file was edited since; start snakemake again"
        raise ConfigError([Problem("run", show(data.get("run")), allowed)])


def _problem(error: ErrorDetails) -> Problem:
    """An error of pydantic as a problem."""
    location = error["loc"]
    path, value, kind, context = _dotted(location), error["input"], error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(location, value)
    if kind == "missing":
        return Problem(path, "none", "this key is required, here or in a file before this one")
    if kind == "key_without_effect":
        return Problem(f"{path}.{context['key']}", show(value[context["key"]]), error["msg"])
    text = re.sub(r"^Value error, |^(Input|String) should (be )?", "", error["msg"])
    choices = re.findall(r"'(.+?)'", text) if kind == "literal_error" else []
    return Problem(path, show(value), _ALLOWED.get(kind, text), nearest(str(value), choices))


def _unknown_key(location: Sequence[str | int], value: object) -> Problem:
    *block, key = location
    siblings = sorted(block_at(block)["properties"])
    # Of two keys with one name, the one in the same block is meant, else the one in fewer blocks; none in a list.
    paths = [_dotted([*block, name]) for name in siblings]
    paths += sorted((path for path, _ in known_keys() if "[" not in path), key=lambda path: path.count("."))
    by_name = {path.rpartition(".")[2]: path for path in reversed(paths)}
    name = nearest(str(key), by_name)
    allowed = f"no such key; known here: {', '.join(siblings)}"
    return Problem(_dotted(location), show(value), allowed, by_name[name] if name else None)


def _dotted(location: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]")
    return text.removeprefix(".")
