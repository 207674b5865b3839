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
    """There are faults; the text names them."""


def audit_run(root: Path, files: Iterable[Path] | None = None) -> Run:
    """Check the files of a run by themselves and against each other; nothing is changed.

    A damaged file is named once. Checks that need it are left out.

    Args:
        root: the folder of the run.
        files: as in `open_run`.

    Raises:
        NoRunError: as `open_run`.
    """
    run = open_run(root, files)
    for check in (check_files, check_inputs, check_samples, check_partitions, check_stored):
        check(run)
    return run


def require_sound(run: Run) -> None:
    """Raise AuditError with every fault, if there is one."""
    if run.faults:
        raise AuditError("\n".join(_faults(run)))


def summary(run: Run) -> str:
    """The audit for a terminal: the versions that made the files, and the faults."""
    made_by = Counter(footer["made_by"] for footer in run.footers.values() if footer.get("schema") == "timings")
    lines = [f"Made by {name} ({counted(jobs, 'job')})." for name, jobs in made_by.most_common()]
    if run.listed is None:
        lines.append(f"Not finished: without {SUMS}, no file that should be there is known to be missing.")
    paths = run.listed or [path for path in run.present if kind_of(path) or manifest_above(path)]
    sound = f"All {counted(len(paths), 'file')} are as they were written, and fit together."
    return "\n".join([*lines, *(_faults(run) or [sound])])


def _faults(run: Run) -> list[str]:
    """A line for each fault, and the commands that mend them.

    While the products of an intermediate file exist, Snakemake makes it again only if the command names it.
    """
    lines = [f"FAILED  {text}" for texts in run.faults.values() for text in texts]
    if run.targets:
        targets, again = " ".join(str(run.root / path) for path in run.targets), ".venv/bin/snakemake --cores 2"
        lines.append(f"To make what is missing or deleted again, with the configuration of the run: {again} {targets}")
        lines.append(f"Then, for what follows from it: {again} --configfile FILE")
    return [*map(visible, lines), f"{counted(sum(map(len, run.faults.values())), 'fault')}."] if lines else []
