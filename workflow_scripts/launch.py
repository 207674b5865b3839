"""Start Snakemake in a folder, also after a kill -9. All arguments are passed to Snakemake.

A killed Snakemake leaves orphaned jobs, their temporary files and a lock. This ends the orphans and removes the files
and the lock, unless another Snakemake of the folder is running; then it replaces itself by Snakemake.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import psutil

parser = argparse.ArgumentParser(add_help=False)
parser.add_argument("--directory", "-d", type=Path, default=Path())
folder = parser.parse_known_args()[0].directory.resolve()
locks, started_on, here = folder / ".snakemake/locks", folder / ".snakemake/started_on", os.uname().nodename
if locks.is_dir() and any(locks.iterdir()) and started_on.exists() and (host := started_on.read_text()) != here:
    sys.exit(f"Snakemake was started on {host} and may still be at work in {folder}. If it has ended: rm -r {locks}")
orphans = []
for process in psutil.process_iter():
    try:
        command = process.cmdline()
        if any(part.startswith(f"{folder}/.snakemake/scripts/") for part in command):
            orphans.append(process)
        elif any(Path(part).name == "snakemake" for part in command[:3]) and Path(process.cwd()) == folder:
            sys.exit(f"Snakemake (process {process.pid}) is at work in {folder}: wait for it, or stop it with Ctrl-C")
    except psutil.Error:
        continue  # ended meanwhile, or another user's
for orphan in orphans:
    print(f"ending process {orphan.pid}, which an interrupted run left behind", file=sys.stderr)
    orphan.kill()
psutil.wait_procs(orphans)
shutil.rmtree(locks, ignore_errors=True)
for leftover in [*(folder / "results").rglob(".*.tmp")]:
    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
started_on.parent.mkdir(exist_ok=True)
started_on.write_text(here)
os.execv(sys.executable, [sys.executable, "-m", "snakemake", *sys.argv[1:]])
