"""Leftovers of a killed Snakemake in a folder: orphaned jobs, their temporary files, and a lock."""

from __future__ import annotations

import fnmatch
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

# At its import polars, which most runs use, sets a handler of SIGINT with SA_RESTART. With that handler the wait for a
# job goes on after the signal. This import is early, so that the handlers below replace it.
import polars  # noqa: F401
import psutil

# For Snakemake to note the interrupt before a job fails; then for jobs that ignore SIGTERM.
_NOTED_S, _PATIENCE_S = 0.3, 5.0


class JobsEnder:
    """A handler of SIGINT, SIGTERM and SIGHUP: it ends all jobs, and Snakemake as by Ctrl-C.

    Attributes:
        number: of the first signal; 0 before any.
    """

    def __init__(self) -> None:
        self.number = 0
        # Set, and not only caught: a shell starts commands in the background with SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            return
        self.number = number
        threading.Thread(target=end_jobs, daemon=True).start()
        # Without it Snakemake would print errors of its asyncio loop, which the interrupt may have left running.
        logging.lastResort = logging.NullHandler()
        signal.default_int_handler(number, frame)


def end_jobs() -> None:
    """SIGTERM to all processes below this one; SIGKILL to those that are left after some seconds."""
    time.sleep(_NOTED_S)
    jobs = psutil.Process().children(recursive=True)
    for job in jobs:
        with suppress(psutil.NoSuchProcess):
            job.terminate()
    for job in psutil.wait_procs(jobs, timeout=_PATIENCE_S)[1]:
        with suppress(psutil.NoSuchProcess):
            job.kill()


class AtWorkError(RuntimeError):
    """Another Snakemake is at work in the folder, or may be."""


def remove_leftovers(folder: Path) -> None:
    """End the orphans of an interrupted run, remove its temporary files and its lock, and record this machine.

    Raises:
        AtWorkError: the run has not ended, or not for certain; then nothing is changed.
        OSError: a file cannot be written or removed.
    """
    locks, started_on, here = folder / ".snakemake/locks", folder / ".snakemake/started_on", os.uname().nodename
    if locks.is_dir() and any(locks.iterdir()) and started_on.exists() and (host := started_on.read_text()) != here:
        raise AtWorkError(
            f"Snakemake was started on {host} and may still be at work in {folder}. If it has ended: rm -r {locks}"
        )
    if process := _snakemake_of(folder):
        raise AtWorkError(
            f"Snakemake (process {process.pid}) is at work in {folder}: wait for it, or stop it with Ctrl-C. "
            "Two runs at once need two folders (--directory)"
        )
    orphans = [*_jobs_of(folder)]
    for orphan in orphans:
        print(f"ending process {orphan.pid}, which an interrupted run left behind", file=sys.stderr)
        orphan.kill()
    psutil.wait_procs(orphans)
    shutil.rmtree(locks, ignore_errors=True)
    for leftover in [*_temporary_files(folder / "results")]:
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)
    started_on.parent.mkdir(parents=True, exist_ok=True)
    started_on.write_text(here)


def _snakemake_of(folder: Path) -> psutil.Process | None:
    """The living Snakemake of a folder, however it was started: it writes a log there until it ends."""
    logs = (folder / ".snakemake/log").resolve()
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or another user's
            written = {Path(file.path).parent for file in process.open_files() if file.mode != "r"}
            if logs in written and process.pid != os.getpid():
                return process
    return None


def _jobs_of(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(part.startswith(f"{folder}/.snakemake/scripts/") for part in process.cmdline()):
                yield process


def _temporary_files(folder: Path) -> Iterator[Path]:
    """Temporary files and folders below a folder. Links to folders are followed; each folder is visited once."""
    visited = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in visited:
            folders.clear()
            continue
        visited.add(real)
        temporary = fnmatch.filter([*folders, *files], ".*.tmp")
        yield from (Path(place, name) for name in temporary)
        folders[:] = {*folders} - {*temporary}
