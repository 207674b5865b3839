"""The files, folders and models that a configuration names, looked for before the first job."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from dphrl.config.blocks.data import TOY
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.hub import HubError, data_name, model_config, model_name

# From a place and the folder of relative paths to the allowed value, in words; None if the place exists.
Check = Callable[[str, Path], str | None]


def check_files(config: Config, folder: Path) -> None:
    """Raise `ConfigError` for a file, folder, model or package that is not there, and for too long sequences.

    Args:
        folder: where relative paths start.
    """
    problems = []
    for key, place, check in _places(config):
        try:
            allowed = check(place, folder)
        except HubError as error:
            allowed = str(error)
        if allowed:
            problems.append(Problem(key, show(place), allowed))
    for name in config.train.trackers:
        if find_spec(name) is None:
            allowed = f"a tracker whose package is installed: pip install {name}, or leave it out"
            problems.append(Problem("train.trackers", show(name), allowed))
    base, length, positions = config.policy.base, config.engine.max_model_len, None
    with suppress(ValueError, OSError, AttributeError, TypeError):  # damaged, as the job that imports the model says
        settings = (model_config(base, folder) if base else None) or {}
        settings = settings.get("text_config") or settings
        rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
        if "factor" not in rope:  # which extends the positions
            positions = settings.get("max_position_embeddings")
    if isinstance(positions, int) and length > positions:
        allowed = f"at most {positions}, the positions of the model (max_position_embeddings of {base})"
        problems.append(Problem("engine.max_model_len", show(length), allowed))
    if problems:
        raise ConfigError(problems)


def _places(config: Config) -> Iterator[tuple[str, str, Check]]:
    """Each key that names a place, the place, and its check."""
    for name, dataset in config.datasets.items():
        yield f"datasets.{name}.source", dataset.source, _data
        if dataset.database_folder not in (None, TOY):
            yield f"datasets.{name}.databases", str(dataset.database_folder), _databases
    if config.policy.base is not None:
        yield "policy.base", config.policy.base, _model
    if config.policy.supervised:
        yield "policy.supervised.source", config.policy.supervised.source, _data
    for name, scorer in config.scoring.custom.items():
        yield f"scoring.custom.{name}.source", scorer.source, _file
    for part, path in config.partition.given.items():
        yield f"partition.given.{part}", path, _file
    for policy, answers in config.replay.items():
        for name, path in answers.items():
            yield f"replay.{policy}.{name}", path, _file
    for name, models in config.checkpoints.items():
        for model in [models] if isinstance(models, str) else models:
            yield f"checkpoints.{name}", model, _model
    for name, method in config.methods.items():
        for key, function in method.functions.items():
            yield f"methods.{name}.{key}", function.rpartition(":")[0], _file


def _file(place: str, folder: Path) -> str | None:
    return None if (folder / place).is_file() else f"a file that exists (paths are relative to {folder})"


def _data(place: str, folder: Path) -> str | None:
    return None if place == TOY or data_name(place) else _file(place, folder)


def _databases(place: str, folder: Path) -> str | None:
    if (folder / place).is_dir():
        return None
    return f"a folder that exists and holds <db_id>/<db_id>.sqlite (paths are relative to {folder})"


def _model(place: str, folder: Path) -> str | None:
    files = (folder / place / name for name in ("config.json", "adapter_config.json"))
    if model_name(place, folder) or any(map(Path.is_file, files)):
        return None
    return f"a folder with the config.json of a model (paths are relative to {folder}), or hf://ORG/NAME of the hub"
