"""Damage to the files of a run, and the faults that the audit names."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from raw_tables import flip_byte

from dphrl.report.audit import audit_run

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# No data set, policy or table has this name.
FOREIGN = "a-copy"


def failures(root: Path) -> dict[str, list[str]]:
    """The texts of faults by file."""
    return audit_run(root).faults


def flipped(file: Path, other: Path) -> None:
    """One byte in the middle is another."""
    flip_byte(file)


def truncated(file: Path, other: Path) -> None:
    """The second half is gone."""
    os.truncate(file, file.stat().st_size // 2)


def swapped(file: Path, other: Path) -> None:
    """The file of another run."""
    shutil.copyfile(other, file)


def missing(file: Path, other: Path) -> None:
    """The file is gone."""
    file.unlink()


def foreign(file: Path, other: Path) -> None:
    """A copy next to the file under a name that no rule writes."""
    shutil.copyfile(file, file.with_name(f"{FOREIGN}{file.suffix}"))


# The second file is the counterpart of the first in another run.
OF_A_FILE: dict[str, Callable[[Path, Path], None]] = {
    "flipped byte": flipped,
    "truncated": truncated,
    "of another run": swapped,
    "missing": missing,
    "foreign file": foreign,
}
