"""Leftovers of a killed Snakemake in a folder: orphaned jobs, their temporary files, and a lock."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import psutil

_SNAKEMAKE = ("snakemake", "launch.py")


class AtWorkError(RuntimeError):
    """Another Snakemake is at work in the folder, or may be."""


class UnwritableError(RuntimeError):
    """Snakemake cannot write into the folder; the text says what to do."""


def remove_leftovers(folder: Path) -> None:
    """End the orphans of an interrupted run, remove its files and its lock, and write down this machine.

    Raises `AtWorkError` unless the run has ended; then nothing is changed. `UnwritableError` if it cannot write there.
    """
    locks, started_on, here = folder / ".snakemake/locks", folder / ".snakemake/started_on", os.uname().nodename
    if locks.is_dir() and any(locks.iterdir()) and started_on.exists() and (host := started_on.read_text()) != here:
        raise AtWorkError(
            f"Snakemake was started on {host} and may still be at work in {folder}. If it has ended: rm -r {locks}"
        )
    orphans = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if any(part.startswith(f"{folder}/.snakemake/scripts/") for part in command):
                orphans.append(process)
            elif (
                process.pid != os.getpid()
                and any(Path(part).name in _SNAKEMAKE for part in command[:3])
                and Path(process.cwd()) == folder
            ):
                raise AtWorkError(
                    f"Snakemake (process {process.pid}) is at work in {folder}: wait for it, or stop it with Ctrl-C. "
                    "Two runs at once need two folders (--directory)"
                )
        except psutil.Error:
            continue  # ended meanwhile, or another user's
    for orphan in orphans:
        print(f"ending process {orphan.pid}, which an interrupted run left behind", file=sys.stderr)
        orphan.kill()
    psutil.wait_procs(orphans)
    shutil.rmtree(locks, ignore_errors=True)
    for leftover in [*(folder / "results").rglob(".*.tmp")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    try:
        started_on.parent.mkdir(parents=True, exist_ok=True)
        started_on.write_text(here)
    except OSError as error:
        raise UnwritableError(
            f"{folder}: Snakemake cannot write its folder .snakemake there ({error.strerror}): change the permissions, "
            "or start in another folder (--directory)"
        ) from None
