"""The configuration of a run as the Snakefile takes it: checked, with all that it names, before the first job."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.config.load import load_config
from dphrl.config.places import check_files
from dphrl.plan.describe import check_fits
from dphrl.store.layout import Layout
from dphrl.store.parquet import read_footer
from dphrl.store.schema import SchemaError
from dphrl.store.stage import other_version

# The digests of the configurations that a run was planned with.
_PLANNED = "DPHRL_PLANNED"


def checked_config(data: Mapping[str, Any], folder: Path, *, plans: bool) -> Config:
    """The configuration with all defaults.

    Args:
        data: its keys, of all files together.
        folder: where Snakemake runs; relative paths start here.
        plans: whether this process plans the run; a job reads the Snakefile again.

    Raises:
        ConfigError: a key is wrong; a file, folder, model or function is not there or cannot be used; the folder has
            results of another version or seed; or a job cannot fit on the GPUs.
    """
    config = load_config(data)
    check_planned(data, plans)
    check_files(config, folder)
    if plans and any(method.functions for method in config.methods.values()):
        from dphrl.objective.user_functions import check_functions  # with torch, which takes seconds to import

        check_functions(config.methods, config.train.rollouts_per_prompt)
    check_folder(config, folder)
    check_fits(config, folder)
    return config


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


def check_folder(config: Config, folder: Path) -> None:
    """Raise `ConfigError` if a run would mix with results of another version or seed.

    A finished run would be lost by one changed number, which gives no better results: that is another run.

    Args:
        folder: where Snakemake runs.
    """
    name = Layout(config).root
    if version := other_version(folder / name):
        allowed = f"a name without results: {name} is of version {version}, which `git checkout v{version}` reads"
        raise ConfigError([Problem("run", show(config.run), allowed)])
    # Each job reads the Snakefile, so a footer is read, and no file is hashed.
    drawn = ("draws/*/rollouts/*/0.parquet", "rollouts/**/0.parquet")
    for file in chain.from_iterable(map((folder / name).glob, drawn)):
        with suppress(SchemaError, OSError, KeyError):  # a damaged file, which the audit names
            footer = read_footer(file, verify=False)
            if "recorded" in footer["inputs"]:  # answers that no seed changes
                continue
            if footer["seed"] != config.seed:
                allowed = (
                    f"{footer['seed']}, with which {name} was made; or give this run another name (key run), which"
                    f" keeps {name}; or delete {name} first"
                )
                raise ConfigError([Problem("seed", show(config.seed), allowed)])
            return
