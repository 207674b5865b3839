"""Checks before a run starts in a folder: results of another version or seed, another run, a run bound to fail."""

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import read_footer
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.layout.run import Layout

_LOCKS = ".snakemake/locks"
_GREEDY = re.compile(rb'"sample_index"\s*:\s*-1\b')


def check_folder(config: Config, folder: Path, starts: bool) -> None:
    """Raise `ConfigError` if a run would mix with results of 0.4 or of another seed, start next to another, or fail.

    It fails where it cannot write, and where recorded answers lack the greedy responses that are asked for.

    Args:
        folder: where Snakemake runs.
        starts: whether jobs will be started; a dry run may look while another run is at work.
    """
    problems = [*_other_version(config, folder), *_other_seed(config, folder)]
    if starts:
        problems += [*_other_run(config, folder), *_not_writable(config, folder), *_no_greedy(config, folder)]
    if problems:
        raise ConfigError(problems)


def is_of_version_0_4(root: Path) -> bool:
    """Whether the folder of a run is of version 0.4, whose layout this version cannot read."""
    return any((root / name).exists() for name in ("partition/final.parquet", "policies/base/manifest.json"))


def _other_version(config: Config, folder: Path) -> Iterator[Problem]:
    root = Layout(config).root
    if is_of_version_0_4(folder / root):
        allowed = f"a name without results: {root} is a run of version 0.4, which `git checkout v0.4.0` reads"
        yield Problem("run", show(config.run), allowed)


def _other_seed(config: Config, folder: Path) -> Iterator[Problem]:
    """A finished run would be lost by one changed number, which gives no better results: that is another run."""
    layout = Layout(config)
    # Recorded answers, which no seed changes, are left out.
    plans = () if config.replays_training_set else ("presample", "refine")
    drawn = [path for plan in plans for path in layout.drawn_shards("drawn_rollouts", plan)[:1]]
    drawn += [
        layout.shards("rollouts", policy, name)[0]
        for policy in layout.policies()
        for name in config.evaluate.datasets
        if name not in config.replay.get(policy.method, {})
    ]
    for path in drawn:
        file = folder / path
        if not file.is_file():
            continue
        try:
            made = read_footer(file, verify=False).get("seed")
            if made in (None, config.seed):
                return  # each job reads the Snakefile: no sample is hashed
            read_footer(file)
        except (SchemaError, OSError, ValueError):
            continue  # a damaged file, which the audit names
        allowed = (
            f"{made}, with which {layout.root} was made; or give this run another name (key run), which keeps "
            f"{layout.root}; or delete {layout.root} first"
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


def _no_greedy(config: Config, folder: Path) -> Iterator[Problem]:
    """Files without any greedy response. Where some questions lack one, the sampling job says which."""
    if not config.sampling.evaluate.greedy:
        return
    recorded = {
        f"replay.{policy}.{name}": files[name]
        for policy, files in config.replay.items()
        for name in config.evaluate.datasets
        if name in files
    }
    lacking = [key for key, path in recorded.items() if not _has_greedy(folder / path)]
    if lacking:
        allowed = f"false, as there is no greedy response (sample_index -1) in {', '.join(lacking)}; or record them"
        yield Problem("sampling.evaluate.greedy", show(True), allowed)


def _has_greedy(file: Path) -> bool:
    """Whether recorded answers include a greedy response; true for an unreadable file, which fails in its job."""
    try:
        if file.suffix == ".parquet":
            rows = pl.scan_parquet(file, glob=False)
            has_index = "sample_index" in rows.collect_schema()
            return has_index and rows.select((pl.col("sample_index") == -1).any()).collect().item()
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return _GREEDY.search(text) is not None
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return True
