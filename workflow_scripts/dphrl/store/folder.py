"""Checks before a run starts in a folder: results of another version or seed, another run, a folder not to write in."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.store.layout import Layout
from dphrl.store.parquet import read_footer
from dphrl.store.schema import SchemaError
from dphrl.store.stage import library_version

_LOCKS = ".snakemake/locks"


def check_folder(config: Config, folder: Path, starts: bool) -> None:
    """Raise `ConfigError` if a run would mix with results of another version or seed, or could not write.

    Args:
        folder: where Snakemake runs.
        starts: whether jobs will be started; a dry run may look while another run is at work.
    """
    problems = [*_other_version(config, folder), *_other_seed(config, folder)]
    if starts:
        problems += [*_other_run(config, folder), *_not_writable(config, folder)]
    if problems:
        raise ConfigError(problems)


def other_version(root: Path) -> str | None:
    """The version of this project that made a run, if it is neither this one nor a patch of it; else None."""
    for file in sorted(root.glob("prompts/*.parquet")):
        with suppress(SchemaError):  # a damaged file, which the audit names
            made = str(read_footer(file, verify=False).get("made_by", "dphrl 0.4.0")).split()[-1]
            return None if made.split(".")[:2] == library_version("dphrl").split(".")[:2] else made
    return None


def _other_version(config: Config, folder: Path) -> Iterator[Problem]:
    root = Layout(config).root
    if version := other_version(folder / root):
        allowed = f"a name without results: {root} is of version {version}, which `git checkout v{version}` reads"
        yield Problem("run", show(config.run), allowed)


def _other_seed(config: Config, folder: Path) -> Iterator[Problem]:
    """A finished run would be lost by one changed number, which gives no better results: that is another run."""
    name = Layout(config).root
    # Each job reads the Snakefile, so a few footers are read, and a file is hashed only if its seed differs.
    drawn = ("draws/*/rollouts/*/0.parquet", "rollouts/**/0.parquet")
    for file in chain.from_iterable(map((folder / name).glob, drawn)):
        with suppress(SchemaError, OSError, KeyError):  # a damaged file, which the audit names
            footer = read_footer(file, verify=False)
            if "recorded" in footer["inputs"]:  # answers that no seed changes
                continue
            if footer["seed"] != config.seed:
                read_footer(file)
                allowed = (
                    f"{footer['seed']}, with which {name} was made; or give this run another name (key run), which"
                    f" keeps {name}; or delete {name} first"
                )
                yield Problem("seed", show(config.seed), allowed)
            return


def _other_run(config: Config, folder: Path) -> Iterator[Problem]:
    """The first Snakemake to end in a folder removes the locks of all, after which two can write the same file."""
    ours = f"{Layout(config).root}/"
    for lock in sorted((folder / _LOCKS).glob("*.output.lock")):
        locked = lock.read_text(encoding="utf-8", errors="replace").splitlines()
        others = sorted({"/".join(path.split("/")[:2]) for path in locked if path.startswith("results/")} - {ours[:-1]})
        if others:
            allowed = (
                f"one run at a time in a folder, and {', '.join(others)} is at work: wait for it, or start this one in "
                f"another folder (--directory). If nothing is at work, a killed run left its lock: rm -r {_LOCKS}"
            )
            yield Problem("run", show(config.run), allowed)
            return


def _not_writable(config: Config, folder: Path) -> Iterator[Problem]:
    root = folder / Layout(config).root
    there = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(there, os.W_OK):
        allowed = "a folder that can be written to: change its permissions, or start in another folder (--directory)"
        yield Problem(Layout(config).root, f"{there}, which is read-only or another user's", allowed)
