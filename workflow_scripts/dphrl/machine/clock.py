"""Files whose time is in the future."""

import time
from collections.abc import Iterable
from pathlib import Path

# The clock of a file server may be ahead by seconds.
_TOLERANCE_S = 60.0


def from_the_future(files: Iterable[str]) -> str | None:
    """The message about the inputs of a run that are newer than the clock; None without any.

    Snakemake ends a run after a job whose output is older than its input.
    """
    latest = time.time() + _TOLERANCE_S
    ahead = sorted({file for file in files if Path(file).is_file() and Path(file).stat().st_mtime > latest})
    if not ahead:
        return None
    more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
    return f"{ahead[0]}{more}: its time is in the future. Set it (touch {ahead[0]}), or set the clock of this machine"
