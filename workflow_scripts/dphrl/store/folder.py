"""Checks before a run starts in a folder: results of another version or seed."""

from contextlib import suppress
from itertools import chain
from pathlib import Path

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.store.layout import Layout
from dphrl.store.parquet import read_footer
from dphrl.store.schema import SchemaError
from dphrl.store.stage import library_version


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


def other_version(root: Path) -> str | None:
    """The version of this project that made a run, if it is neither this one nor a patch of it; else None."""
    for file in sorted(root.glob("prompts/*.parquet")):
        with suppress(SchemaError):  # a damaged file, which the audit names
            made = str(read_footer(file, verify=False).get("made_by", "dphrl 0.4.0")).split()[-1]
            return None if made.split(".")[:2] == library_version("dphrl").split(".")[:2] else made
    return None
