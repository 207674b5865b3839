"""Reading a configuration: a checked `Config`, or one error that lists every problem."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dphrl.config.blocks.data import TOY
from dphrl.config.blocks.toy import ToyConfig
from dphrl.config.checks import problems_between_blocks
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, OverlayError, Problem, show
from dphrl.config.files import (
    Files,
    content,
    is_complete,
    merged,
    name_files,
    odd_values,
    read_files,
    read_yaml,
    without_removed,
)
from dphrl.config.keys import problem_of
from dphrl.hub import HubError, data_name, model_config, model_name

# A default that depends on a wrong key was not computed. The wrong key is an error by itself.
_FOLLOW_UP = "default_factory_not_called"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
# The digests of the configurations that a run was planned with.
_PLANNED = "DPHRL_PLANNED"
# Snakemake's wildcards and path variables.
_REPLACED = re.compile(r"\{.*\}|<.*>")
# The tasks of a user's scorers, which are not imported before they score.
_REGISTERED = re.compile(r"""^@(?:\w+\.)*register\(\s*["']([^"']+)["']""", re.MULTILINE)


def load_config(data: dict[str, Any] | None) -> Config:
    """The checked configuration, with every default, with the keys of `toy.world`, without blocks and entries of null.

    Raises `ConfigError` with the path of each wrong key, its value, the allowed values, and the nearest key.
    """
    if not data:
        required = ", ".join(name for name, field in Config.model_fields.items() if field.is_required())
        raise ConfigError([Problem("", "an empty configuration", f"a block of keys; required are {required}")])
    if isinstance(data, dict):
        if problems := odd_values(data):
            raise ConfigError(problems)
        if not is_complete(data):
            raise OverlayError
        data = without_removed(_with_world(data))
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError([problem_of(each) for each in error.errors() if each["type"] != _FOLLOW_UP]) from None
    if problems := problems_between_blocks(config):
        raise ConfigError(_marked(problems, config))
    return config


def _with_world(data: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the keys of `toy.world` in place of its path, which differs between users of a world."""
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
    problems = odd_values({"toy": keys})
    try:
        ToyConfig.model_validate({} if problems else keys)
    except ValidationError as error:
        problems = [problem_of(each | {"loc": ("toy", *each["loc"])}) for each in error.errors()]
    if problems:
        raise ConfigError([replace(problem, file=path) for problem in problems])
    return {**data, "toy": merged(keys, own)}


def _marked(problems: Sequence[Problem], config: Config) -> list[Problem]:
    """The problems, marked where the configuration leaves out the key and the value is its default."""
    return [replace(problem, is_default=_is_default(problem.path, config)) for problem in problems]


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
    """`load_config` of YAML files, each of which changes the files before it; raises `ConfigError` with their names."""
    files: Files = dict.fromkeys(paths)
    try:
        files = read_files(paths)
        return load_config(content(files))
    except ConfigError as error:
        raise name_files(error, files) from None


def check_planned(data: dict[str, Any], plans: bool) -> None:
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


def check_files(config: Config, folder: Path) -> None:
    """Raises `ConfigError` for files and folders of the configuration that cannot be used.

    They must exist, relative to `folder`, and Snakemake must not replace a part of their paths. The package of each
    tracker must be installed.
    """
    wrong: list[Problem] = []
    files = {}
    sources = {f"datasets.{name}.source": dataset.source for name, dataset in config.datasets.items()}
    if supervised := config.policy.supervised:
        sources["policy.supervised.source"] = supervised.source
    for key, source in sources.items():
        try:
            if source != TOY and not data_name(source):
                files[key] = source
        except HubError as error:
            wrong.append(Problem(key, show(source), str(error)))
    for policy, paths in config.replay.items():
        files |= {f"replay.{policy}.{name}": path for name, path in paths.items()}
    files |= {f"scoring.custom.{name}.source": scorer.source for name, scorer in config.scoring.custom.items()}
    files |= {f"partition.given.{name}": path for name, path in config.partition.given.items()}
    folders = {f"datasets.{name}.databases": dataset.database_folder for name, dataset in config.datasets.items()}
    for name, method in config.methods.items():
        files |= {f"methods.{name}.{key}": place.rpartition(":")[0] for key, place in method.functions.items()}
    databases = {key: path for key, path in folders.items() if path not in (None, TOY)}
    here = f"(paths are relative to {folder})"
    expected = f"a file that exists {here}"
    wrong += [Problem(key, show(path), expected) for key, path in files.items() if not (folder / path).is_file()]
    expected = f"a folder that exists and holds <db_id>/<db_id>.sqlite {here}"
    wrong += [
        Problem(key, show(path), expected) for key, path in databases.items() if not (folder / str(path)).is_dir()
    ]
    for name, scorer in config.scoring.custom.items():
        file = folder / scorer.source
        registered = _REGISTERED.findall(file.read_text("utf-8", "replace")) if file.is_file() else []
        if registered and name not in registered:
            expected = f"a task that {scorer.source} registers: {', '.join(registered)}"
            wrong.append(Problem(f"scoring.custom.{name}", show(name), expected))
    checkpoints = {f"checkpoints.{name}": places for name, places in config.checkpoints.items()}
    base = config.policy.base
    if base is not None:
        problem = _model_problem(base, folder)
        wrong += [Problem("policy.base", show(base), problem)] if problem else _base_problems(config, base, folder)
    for key, places in checkpoints.items():
        for place in [places] if isinstance(places, str) else places:
            if problem := _model_problem(place, folder, "adapter_config.json"):
                wrong.append(Problem(key, show(place), problem))
    expected = "a path without {name} or <name>, which Snakemake would replace"
    named = {**files, **databases, **checkpoints, "policy.base": base or ""}
    wrong += [Problem(key, show(path), expected) for key, path in named.items() if _REPLACED.search(str(path))]
    for name in config.train.trackers:
        if find_spec(name) is None:
            expected = f"a tracker whose package is installed: pip install {name}, or leave it out"
            wrong.append(Problem("train.trackers", show(name), expected))
    if wrong:
        raise ConfigError(_marked(wrong, config))


def _model_problem(place: str, folder: Path, *or_else: str) -> str | None:
    """The value that is expected in place of a model's place; None for a name of the hub and for the folder of a model.

    Args:
        or_else: files that a folder may have in place of config.json.
    """
    try:
        if model_name(place, folder):
            return None
    except HubError as error:
        return str(error)
    model = folder / place
    for actor in (model / "actor", model):
        kinds = {"fsdp": actor.glob("model_world_size_*.pt"), "megatron": actor.glob("dist_ckpt")}
        for kind, shards in kinds.items():
            if any(shards) and not any(model.glob("*.safetensors")):
                merge = f"python -m verl.model_merger merge --backend {kind}"
                merge += f" --local_dir {actor.relative_to(folder)} --target_dir {place}/merged"
                return f"a folder with safetensors; these are shards of verl: `{merge}` writes {place}/merged"
    if any((model / name).is_file() for name in ("config.json", *or_else)):
        return None
    return (
        f"a folder that holds a Hugging Face model (config.json; paths are relative to {folder}), or hf://ORG/NAME: a "
        "model of the hub"
    )


def _base_problems(config: Config, base: str, folder: Path) -> Iterator[Problem]:
    """Problems of the base model that show before any job: no tokenizer, too few positions."""
    if not model_name(base, folder) and not any((folder / base / tokenizer).is_file() for tokenizer in _TOKENIZERS):
        allowed = f"a folder with the tokenizer of the model too: none of {', '.join(_TOKENIZERS)} is in it"
        yield Problem("policy.base", show(base), allowed)
    settings = _of_config(base, folder)
    positions, length = _positions(settings), config.engine.max_model_len
    if positions is not None and length > positions:
        allowed = f"at most {positions}, the positions of the model (max_position_embeddings of {base})"
        yield Problem("engine.max_model_len", show(length), allowed)
    heads, shared = settings.get("num_attention_heads"), config.hardware.tensor_parallel
    if isinstance(heads, int) and heads % shared:
        yield Problem("hardware.tensor_parallel", show(shared), f"a number that divides the model's {heads} heads")


def _of_config(base: str, folder: Path) -> Mapping[str, Any]:
    """The config.json of a language model; empty where it cannot be read: the job that imports the model says why."""
    try:
        data = model_config(base, folder) or {}
        return data.get("text_config") or data
    except (ValueError, OSError, AttributeError):
        return {}


def _positions(settings: Mapping[str, Any]) -> int | None:
    """The positions of a model; None where its config.json does not name or extends them."""
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    positions = settings.get("max_position_embeddings")
    extended = isinstance(rope, dict) and "factor" in rope
    return positions if isinstance(positions, int) and not extended else None
