"""Reading a configuration: a checked `Config`, or one error that lists every problem."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dphrl.config.blocks.datasets import TOY
from dphrl.config.checks import problems
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, nearest, show
from dphrl.config.keys import known_paths, node_at, resolve

# Only follows from another error: a default that depends on other keys was not computed, as one of them is wrong.
_FOLLOW_UP = "default_factory_not_called"


def load_config(data: dict[str, Any] | None) -> Config:
    """The checked configuration, with every default filled in.

    Raises `ConfigError` with the path of each wrong key, the given value, the allowed ones, and the nearest known key.
    """
    if not data:
        required = ", ".join(name for name, field in Config.model_fields.items() if field.is_required())
        raise ConfigError([Problem("", "an empty configuration", f"a block of keys; required are {required}")])
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError([_problem(each) for each in error.errors() if each["type"] != _FOLLOW_UP]) from None
    if found := problems(config):
        raise ConfigError(found)
    return config


def read_config(path: Path) -> Config:
    """`load_config` of a YAML file. Raises `ConfigError` also where the file does not exist or is not YAML."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Problem(str(path), error.strerror or str(error), "a YAML file that can be read")]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), " ".join(str(error).split()), "YAML: one block of keys")]) from None
    return load_config(data)


def check_files(config: Config, folder: Path) -> None:
    """Raises `ConfigError` where a file or folder that the configuration names, relative to `folder`, is missing."""
    files = {f"datasets.{name}.source": one.source for name, one in config.datasets.items() if one.source != TOY}
    for policy, paths in config.replay.items():
        files |= {f"replay.{policy}.{name}": path for name, path in paths.items()}
    files |= {f"scoring.custom.{name}.source": scorer.source for name, scorer in config.scoring.custom.items()}
    absent = [key for key, path in files.items() if not (folder / path).is_file()]
    missing = [Problem(key, show(files[key]), "a file that exists") for key in absent]
    for name, dataset in config.datasets.items():
        databases = dataset.database_folder
        if databases not in (None, TOY) and not (folder / str(databases)).is_dir():
            allowed = "a folder that exists and holds <db_id>/<db_id>.sqlite"
            missing.append(Problem(f"datasets.{name}.databases", show(databases), allowed))
    base = config.policy.base
    if base is not None and not (folder / base / "config.json").is_file():
        missing.append(Problem("policy.base", show(base), "a folder that holds a Hugging Face model (config.json)"))
    if missing:
        raise ConfigError(missing)


def _problem(details: ErrorDetails) -> Problem:
    location, kind, given = details["loc"], details["type"], details["input"]
    context, path, node = details.get("ctx", {}), _dotted(details["loc"]), node_at(details["loc"])
    if kind == "extra_forbidden":
        key, known = str(location[-1]), sorted(resolve(node_at(location[:-1]))["properties"])
        allowed = f"no such key; known here: {', '.join(known)}"
        return Problem(path, f"{key}: {show(given)}", allowed, _nearest_key(key, path, known))
    if kind == "key_without_effect":
        return Problem(f"{path}.{context['key']}", show(given[context["key"]]), details["msg"])
    description = node.get("description") if location else None
    if kind == "missing":
        return Problem(path, "nothing", "this key is required" + (f": {description}" if description else ""))
    if kind in ("model_type", "dict_type"):
        allowed = "a block of keys (leave the key out to have the defaults)"
    elif kind == "value_error":
        allowed = str(context["error"])
    else:
        allowed = details["msg"].removeprefix("Input should be ").removeprefix("String should ")
    choices = map(str, resolve(node).get("enum", ()))
    choice = nearest(given, choices) if kind == "literal_error" and isinstance(given, str) else None
    return Problem(path, show(given), allowed + (f" -- {description}" if description else ""), choice)


def _dotted(location: tuple[str | int, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]")
    return text.removeprefix(".")


def _nearest_key(key: str, path: str, siblings: list[str]) -> str | None:
    """The same key of another block, else the sibling most like `key`, else the most similar key of another block."""
    by_leaf: dict[str, str] = {}
    for known in sorted(known_paths(), key=lambda known: known.count(".")):
        by_leaf.setdefault(known.rpartition(".")[2], known)
    sibling = nearest(key, siblings)
    if key not in by_leaf and sibling is not None:
        return path.removesuffix(key) + sibling
    leaf = key if key in by_leaf else nearest(key, by_leaf)
    return by_leaf[leaf] if leaf is not None else None
