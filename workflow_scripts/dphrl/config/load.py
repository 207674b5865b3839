"""Reading a configuration: a checked `Config`, or one error that lists every problem."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dphrl.config.blocks.data import TOY
from dphrl.config.blocks.toy import ToyConfig
from dphrl.config.checks import problems
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, OverlayError, Problem, nearest, show
from dphrl.config.files import Files, content, is_complete, merged, name_files, read_files, read_yaml, without_removed
from dphrl.config.keys import known_paths, node_at, resolve
from dphrl.config.values import odd_values

# Only follows from another error: a default that depends on other keys was not computed, as one of them is wrong.
_FOLLOW_UP = "default_factory_not_called"
# Keys of version 0.2.0.
_OF_TRAIN = "ranks zero_stage offload_optimizer gradient_checkpointing prompt_sharing token_budget canary_tolerance"
_MOVED_TO_HARDWARE = {
    *(f"train.{key}" for key in _OF_TRAIN.split()),
    *(f"engine.{key}" for key in ("tensor_parallel", "max_num_seqs", "kv_cache_gib")),
    "reference.token_budget",
}
# Keys of version 0.4.0, by block.
_RENAMED = {
    ("methods", "online"): "rollout_on",
    ("methods", "refills"): "dynamic_sampling_rounds",
    ("methods", "topk"): "topk_estimator",
    ("train", "epochs"): "ppo_epochs",
    ("reference", "top_k"): "topk_logprobs",
}
# How alike two keys are that differ in a letter.
_LETTER = 0.9
# What the patterns of names allow.
_NAMES = {
    r"^[A-Za-z][A-Za-z0-9_]*$": "a name of letters, digits and _, a letter first",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": "a name of letters, digits, ., _ and -, a letter or digit first",
}
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Snakemake's wildcards and path variables.
_REPLACED = re.compile(r"\{.*\}|<.*>")


def load_config(data: dict[str, Any] | None) -> Config:
    """The checked configuration, with every default filled in, the keys of `toy.world`, and without what null removes.

    Raises `ConfigError` with the path of each wrong key, the given value, the allowed ones, and the nearest known key.
    """
    if not data:
        required = ", ".join(name for name, field in Config.model_fields.items() if field.is_required())
        raise ConfigError([Problem("", "an empty configuration", f"a block of keys; required are {required}")])
    if isinstance(data, dict):
        if found := odd_values(data):
            raise ConfigError(found)
        if not is_complete(data):
            raise OverlayError
        data = without_removed(_with_world(data))
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError([_problem(each) for each in error.errors() if each["type"] != _FOLLOW_UP]) from None
    if found := problems(config):
        raise ConfigError(_marked(found, config))
    return config


def _with_world(data: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the keys of `toy.world` in place of its path, which differs between users of one world."""
    toy = data.get("toy")
    if not isinstance(toy, Mapping) or toy.get("world") is None:
        return data
    path, own = toy["world"], {key: value for key, value in toy.items() if key != "world"}
    allowed = f"a YAML file with keys of the block toy (paths are relative to {Path.cwd()})"
    if not isinstance(path, str) or not Path(path).is_file():
        raise ConfigError([Problem("toy.world", show(path), allowed)])
    keys = read_yaml(Path(path))
    if not isinstance(keys, dict) or "world" in keys:
        raise ConfigError([Problem("toy.world", show(path), f"{allowed}, without the key world")])
    found = odd_values({"toy": keys})
    try:
        ToyConfig.model_validate({} if found else keys)
    except ValidationError as error:
        found = [_problem(each | {"loc": ("toy", *each["loc"])}) for each in error.errors()]
    if found:
        raise ConfigError([replace(problem, file=path) for problem in found])
    return {**data, "toy": merged(keys, own)}


def _marked(found: Sequence[Problem], config: Config) -> list[Problem]:
    """The problems; those of keys that the configuration leaves out are marked."""
    return [replace(one, is_default=_is_default(one.path, config)) for one in found]


def _is_default(path: str, config: Config) -> bool:
    node: Any = config
    for name in path.split("."):
        if isinstance(node, Mapping):
            node = node.get(name)
        elif not isinstance(node, BaseModel) or name not in type(node).model_fields:
            return False
        elif name not in node.model_fields_set:
            return True
        else:
            node = getattr(node, name)
    return False


def read_config(*paths: Path) -> Config:
    """`load_config` of YAML files, each of which changes those before; raises `ConfigError`, which names the files."""
    files: Files = dict.fromkeys(paths)
    try:
        files = read_files(paths)
        return load_config(content(files))
    except ConfigError as error:
        raise name_files(error, files) from None


def check_files(config: Config, folder: Path) -> None:
    """Raises `ConfigError` for files and folders that the configuration names.

    They must exist, relative to `folder`, and Snakemake must not replace a part of their paths.
    """
    files = {f"datasets.{name}.source": one.source for name, one in config.datasets.items() if one.source != TOY}
    for policy, paths in config.replay.items():
        files |= {f"replay.{policy}.{name}": path for name, path in paths.items()}
    files |= {f"scoring.custom.{name}.source": scorer.source for name, scorer in config.scoring.custom.items()}
    folders = {f"datasets.{name}.databases": one.database_folder for name, one in config.datasets.items()}
    databases = {key: path for key, path in folders.items() if path not in (None, TOY)}
    base = config.policy.base
    here = f"(paths are relative to {folder})"
    expected = f"a file that exists {here}"
    wrong = [Problem(key, show(path), expected) for key, path in files.items() if not (folder / path).is_file()]
    expected = f"a folder that exists and holds <db_id>/<db_id>.sqlite {here}"
    wrong += [
        Problem(key, show(path), expected) for key, path in databases.items() if not (folder / str(path)).is_dir()
    ]
    if base is not None:
        wrong += _base_problems(config, base, folder)
    checkpoints = {f"checkpoints.{name}": places for name, places in config.checkpoints.items()}
    models = {key: [places] if isinstance(places, str) else places for key, places in checkpoints.items()}
    expected = f"a folder that holds a Hugging Face model (config.json {here})"
    wrong += [
        Problem(key, show(place), expected)
        for key, places in models.items()
        for place in places
        if not (folder / place / "config.json").is_file()
    ]
    expected = "a path without {name} or <name>, which Snakemake would replace"
    named = {**files, **databases, **checkpoints, "policy.base": base or ""}
    wrong += [Problem(key, show(path), expected) for key, path in named.items() if _REPLACED.search(str(path))]
    if wrong:
        raise ConfigError(_marked(wrong, config))


def _base_problems(config: Config, base: str, folder: Path) -> Iterator[Problem]:
    """What can be said of the base model before a job: it is there, has a tokenizer, and positions for the prompts."""
    model = folder / base
    if not (model / "config.json").is_file():
        allowed = f"a folder that holds a Hugging Face model (config.json; paths are relative to {folder})"
        if _HUB_ID.fullmatch(base) and not model.exists():
            name = base.partition("/")[2]
            allowed += (
                f". An id of the Hub is not fetched; the download command is: hf download {base} --local-dir "
                f"models/{name} -- then set policy.base to models/{name}"
            )
        yield Problem("policy.base", show(base), allowed)
        return
    if not any((model / name).is_file() for name in _TOKENIZERS):
        allowed = f"a folder with the tokenizer of the model too: none of {', '.join(_TOKENIZERS)} is in it"
        yield Problem("policy.base", show(base), allowed)
    positions, length = _positions(model / "config.json"), config.engine.max_model_len
    if positions is not None and length > positions:
        allowed = f"at most {positions}, the positions of the model (max_position_embeddings of {base}/config.json)"
        yield Problem("engine.max_model_len", show(length), allowed)


def _positions(file: Path) -> int | None:
    """The positions of a model; None where its config.json does not say, or extends them."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        data = data.get("text_config") or data
        rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
        found = data.get("max_position_embeddings")
    except (ValueError, OSError, AttributeError):
        return None  # the import of the base says what is wrong with it
    extended = isinstance(rope, dict) and "factor" in rope
    return found if isinstance(found, int) and not extended else None


def _problem(details: ErrorDetails) -> Problem:
    location, kind, given = details["loc"], details["type"], details["input"]
    context, path, node = details.get("ctx", {}), _dotted(details["loc"]), node_at(details["loc"])
    if kind == "extra_forbidden":
        key, known = str(location[-1]), sorted(resolve(node_at(location[:-1]))["properties"])
        if path in _MOVED_TO_HARDWARE:
            return Problem(path, f"{key}: {show(given)}", f"no such key: moved to hardware.{key}")
        if new := _RENAMED.get((str(location[0]), key)):
            renamed = _dotted((*location[:-1], new))
            return Problem(path, f"{key}: {show(given)}", f"no such key: renamed to {renamed}")
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
    elif kind in ("tuple_type", "list_type"):
        allowed = f"a list: [{given}]" if isinstance(given, str | int | float) else "a list"
    elif kind == "string_pattern_mismatch" and context["pattern"] in _NAMES:
        allowed = _NAMES[context["pattern"]]
    else:
        allowed = details["msg"].removeprefix("Input should be ").removeprefix("String should ")
    choices = map(str, resolve(node).get("enum", ()))
    choice = nearest(given, choices) if kind == "literal_error" and isinstance(given, str) else None
    return Problem(path, show(given), allowed + (f" -- {description}" if description else ""), choice)


def _dotted(location: tuple[str | int, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]")
    return text.removeprefix(".")


def _nearest_key(key: str, path: str, siblings: list[str]) -> str | None:
    """A sibling that differs in a letter or so, the same key of another block, a similar sibling, or a similar key."""
    if close := get_close_matches(key, siblings, n=1, cutoff=_LETTER):
        return path.removesuffix(key) + close[0]
    by_leaf: dict[str, str] = {}
    for known in sorted(known_paths(), key=lambda known: known.count(".")):
        by_leaf.setdefault(known.rpartition(".")[2], known)
    sibling = nearest(key, siblings)
    if key not in by_leaf and sibling is not None:
        return path.removesuffix(key) + sibling
    leaf = key if key in by_leaf else nearest(key, by_leaf)
    return by_leaf[leaf] if leaf is not None else None
