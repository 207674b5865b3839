"""The audit of a whole run, and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from dphrl.machine.progress import counted
from dphrl.report.audit_between import check_inputs, check_partitions, check_samples, check_stored
from dphrl.report.audit_files import Run, check_files, open_run
from dphrl.store.kinds import kind_of, manifest_above
from dphrl.store.manifest import SUMS
from dphrl.text import visible


class AuditError(RuntimeError):
    """A run has faults; the text is their summary."""


def audit_run(root: Path, files: Iterable[Path] | None = None) -> Run:
    """Check the files of a run by themselves and against each other; nothing is changed.

    A damaged file is named once. Checks that need it are left out.

    Args:
        root: the folder of the run.
        files: as in `open_run`.

    Raises:
        ValueError: as `open_run`.
    """
    run = open_run(root, files)
    for check in (check_files, check_inputs, check_samples, check_partitions, check_stored):
        check(run)
    return run


def summary(run: Run) -> str:
    """The audit for a terminal: the versions that made the files, the faults, and the commands that mend them."""
    made_by = Counter(footer["made_by"] for footer in run.footers.values() if footer.get("schema") == "timings")
    lines = [f"Made by {name} ({counted(jobs, 'job')})." for name, jobs in made_by.most_common()]
    if run.listed is None:
        lines.append(f"Not finished: without {SUMS}, a missing file cannot be named.")
    faults = [text for texts in run.faults.values() for text in texts]
    lines += [f"FAILED  {text}" for text in faults]
    if run.targets:
        # While the products of an intermediate file exist, Snakemake makes it again only if the command names it.
        targets, again = " ".join(str(run.root / path) for path in run.targets), ".venv/bin/snakemake --cores 2"
        lines.append(f"To make what is missing or deleted again, with the configuration of the run: {again} {targets}")
        lines.append(f"Then, for what follows from it: {again} --configfile FILE")
    if faults:
        lines.append(f"{counted(len(faults), 'fault')}.")
    else:
        paths = run.listed or [path for path in run.present if kind_of(path) or manifest_above(path)]
        lines.append(f"All {counted(len(paths), 'file')} are as they were written, and fit together.")
    return "\n".join(map(visible, lines))
