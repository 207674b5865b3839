"""The faults that the audit names."""

import re
from pathlib import Path

from dphrl.report.audit import audit_run

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def failures(root: Path) -> dict[str, list[str]]:
    """The texts of faults by file."""
    return audit_run(root).faults
