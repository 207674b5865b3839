"""Reading a configuration: a checked `Config`, or one error that lists every problem."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dphrl.config.blocks.datasets import TOY
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, ProblemsError, nearest, show
from dphrl.config.keys import block_at, known_paths

PREFIXES = ("Input should be ", "Input should ", "String should ", "Value error, ")
# A default that depends on another key is not worked out when some key of the block is wrong.
FOLLOWS = {"default_factory_not_called"}


def load_config(data: dict[str, Any] | None) -> Config:
    """The checked configuration, with every default filled in.

    Raises:
        ConfigError: with the path of each wrong key, what was given, what is allowed, and the nearest known key.
    """
    if not data:
        required = ", ".join(name for name, field in Config.model_fields.items() if field.is_required())
        raise ConfigError([Problem("", "an empty configuration", f"a block of keys; required are {required}")])
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(
            [problem for details in error.errors() if details["type"] not in FOLLOWS for problem in _problems(details)]
        ) from None


def read_config(path: Path) -> Config:
    """`load_config` of a YAML file.

    Raises:
        ConfigError: also if the file is not there or is not YAML.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Problem(str(path), error.strerror or str(error), "a YAML file that can be read")]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), " ".join(str(error).split()), "YAML: one block of keys")]) from None
    return load_config(data)


def check_files(config: Config, folder: Path) -> None:
    """Check that the files and folders that the configuration names are there, relative to `folder`.

    Raises:
        ConfigError: with the key of each one that is missing.
    """
    problems = []
    files = {f"datasets.{name}.source": dataset.source for name, dataset in config.datasets.items()}
    files |= {
        f"replay.{policy}.{name}": path for policy, paths in config.replay.items() for name, path in paths.items()
    }
    files |= {f"scoring.custom.{name}.source": scorer.source for name, scorer in config.scoring.custom.items()}
    for key, path in files.items():
        if path != TOY and not (folder / path).is_file():
            problems.append(Problem(key, show(path), "a file that exists"))
    for name, dataset in config.datasets.items():
        databases = dataset.database_folder
        if databases not in (None, TOY) and not (folder / str(databases)).is_dir():
            allowed = "a folder that exists and holds <db_id>/<db_id>.sqlite"
            problems.append(Problem(f"datasets.{name}.databases", show(databases), allowed))
    base = config.policy.base
    if base is not None and not (folder / base / "config.json").is_file():
        problems.append(Problem("policy.base", show(base), "a folder that holds a Hugging Face model (config.json)"))
    if problems:
        raise ConfigError(problems)


def _dotted(location: tuple[str | int, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]")
    return text.removeprefix(".")


def _problems(details: ErrorDetails) -> list[Problem]:
    location, kind, given = details["loc"], details["type"], details["input"]
    context = details.get("ctx", {})
    if isinstance(context.get("error"), ProblemsError):
        return list(context["error"].problems)
    path, block = _dotted(location), block_at(Config, location)
    if kind == "extra_forbidden" and block is not None:
        known = sorted(block.model_fields)
        allowed = f"no such key; known here: {', '.join(known)}"
        return [Problem(path, f"{location[-1]}: {show(given)}", allowed, _nearest_key(str(location[-1]), path, known))]
    if kind == "key_without_effect":
        key = context["key"]
        return [Problem(f"{path}.{key}", show(given[key]), details["msg"])]
    field = block.model_fields.get(str(location[-1])) if block is not None and location else None
    if kind == "missing":
        meaning = f": {field.description}" if field is not None else ""
        return [Problem(path, "nothing", f"this key is required{meaning}")]
    allowed = details["msg"]
    for prefix in PREFIXES:
        allowed = allowed.removeprefix(prefix)
    if kind in ("model_type", "dict_type"):
        allowed = "a block of keys (leave the key out to have the defaults)"
    choice = None
    if kind == "literal_error" and isinstance(given, str):
        names = str(context["expected"]).replace(" or ", ", ").split(", ")
        choice = nearest(given, [name.strip("'") for name in names])
    if field is not None and field.description:
        allowed += f" -- {field.description}"
    return [Problem(path, show(given), allowed, choice)]


def _nearest_key(key: str, path: str, siblings: list[str]) -> str | None:
    """The same key of another block, else the sibling most like `key`, else the most similar key of another block."""
    by_leaf: dict[str, str] = {}
    for known in sorted(known_paths(Config), key=lambda known: known.count(".")):
        by_leaf.setdefault(known.rpartition(".")[2], known)
    sibling = nearest(key, siblings)
    if key not in by_leaf and sibling is not None:
        return path.removesuffix(key) + sibling
    leaf = key if key in by_leaf else nearest(key, by_leaf)
    return by_leaf[leaf] if leaf is not None else None
