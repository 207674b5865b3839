"""Checks of the folder in which a run starts: whose results are there, and whether another run is at work in it."""

import json
from collections.abc import Iterator
from pathlib import Path

from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import read_footer
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.layout.kinds import slice_at
from dphrl.layout.names import BASE
from dphrl.layout.run import Layout

_LOCKS = ".snakemake/locks"


def check_folder(config: Config, folder: Path, starts: bool) -> None:
    """Raise `ConfigError` if a run would replace samples of another seed, or would start next to another run.

    Args:
        folder: where Snakemake runs.
        starts: whether jobs will be started; a dry run may look while another run is at work.
    """
    problems = [*_other_seed(config, folder), *(_other_run(config, folder) if starts else ())]
    if problems:
        raise ConfigError(problems)


def _other_seed(config: Config, folder: Path) -> Iterator[Problem]:
    """A finished run would be lost by one changed number, which gives no better results: that is another run."""
    layout = Layout(config)
    for path in layout.shards("rollouts", BASE, config.train_dataset, "presample")[:1]:
        planned = json.loads(slice_at(config, path.removeprefix(f"{layout.root}/")) or "{}").get("seed")
        try:
            made = read_footer(folder / path).get("config", {}).get("seed") if (folder / path).is_file() else None
        except (SchemaError, OSError, ValueError):
            continue  # a damaged file, which the audit names
        if None not in (made, planned) and made != planned:
            allowed = (
                f"{made}, with which {layout.root} was made; or give this run another name (key run), which keeps "
                f"{layout.root}; or delete {layout.root} first"
            )
            yield Problem("seed", show(planned), allowed)


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
