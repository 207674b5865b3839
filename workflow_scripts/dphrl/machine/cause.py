"""The cause of a failed job: it ends the traceback in the job's log, and the terminal shows it from there."""

import sys
import traceback
from types import TracebackType
from typing import Final

_MARK: Final = "FAILED: "
# Parts of the paths of code that is not the user's: the workflow's, of libraries, and made while a program runs.
_NOT_THE_USERS: Final = ("workflow_scripts", "/lib/python", "/.snakemake/", "site-packages", "<")
_LINES: Final = 12


def described(error: BaseException) -> str:
    """Type and text of an error; in a second line its place in the user's own code, such as a scorer, if it has one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _NOT_THE_USERS)]
    text = ": ".join(filter(None, [type(error).__name__, str(error)]))
    return "\n".join([text, *(f"in {at.filename}, line {at.lineno}" for at in own[-1:])])


def print_cause(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an error, then its cause: for `sys.excepthook`."""
    sys.__excepthook__(kind, error, trace)
    print(f"{_MARK}{described(error)}", file=sys.stderr, flush=True)


def cause_in(log: str) -> list[str]:
    """The first lines of the cause in a log; the last lines of the log of a job that was killed."""
    _, mark, cause = log.rpartition(f"\n{_MARK}")
    return cause.splitlines()[:_LINES] if mark else log.splitlines()[-_LINES:]
