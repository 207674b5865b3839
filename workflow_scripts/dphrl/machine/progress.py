"""Progress as whole lines, so that jobs that run at the same time can share one terminal or log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 5.0
# The share that is done before the remaining time is shown: an engine's start would count as the speed of its answers.
_FORESEEABLE = 0.05


class ProgressLines(tqdm):
    """A tqdm bar that prints a line every few seconds instead of redrawing one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs |= {"mininterval": _SECONDS_BETWEEN_LINES, "maxinterval": _SECONDS_BETWEEN_LINES, "miniters": 1}
        # By the mean speed since the start: a moving mean would count an item from the last printed line on.
        kwargs |= {"smoothing": 0, "dynamic_ncols": False, "ncols": None, "file": kwargs.get("file") or stream()}
        kwargs["bar_format"] = (
            "{desc}: {percentage:3.0f}% {bar:20} {n_fmt}/{total_fmt}{unit}, {elapsed} < {remaining}{postfix}"
        )
        super().__init__(*args, **kwargs)
        self._called = False

    @property
    def format_dict(self) -> dict[str, Any]:
        """The values of a line; the remaining time is unknown at the beginning."""
        values: dict[str, Any] = super().format_dict
        if self.disable or not self.total:
            return values
        if self.n - self.initial < _FORESEEABLE * (self.total - self.initial):
            values["bar_format"] = values["bar_format"].replace("{remaining}", "?")
        return values

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        """A function that prints each status as one line. Blank and repeated statuses are skipped."""
        last = ""

        def print_status(status: str) -> None:
            nonlocal last
            if status.strip() and status != last:
                file.write(status + "\n")
                file.flush()
            last = status

        return print_status

    def at_work(self, text: str) -> None:
        """Say what was done since the last whole item; a line is printed as often as for items."""
        self.set_postfix_str(text, refresh=False)
        if not self.disable and time.time() - self.last_print_t >= _SECONDS_BETWEEN_LINES:
            self.refresh()
            self.last_print_t: float = time.time()

    def reached(self, n: int) -> None:
        """Set the number of items that are done. Those of the first call were done before, in no time of this bar."""
        if not self._called:
            self._called, self.initial = True, n
        self.update(n - self.n)

    def close(self) -> None:
        """Print the last line once; tqdm itself would end with an empty one."""
        if not self.disable:
            self.disable: bool = True
            self._decr_instances(self)
            if self.last_print_n < self.n:
                self.display()

    def moveto(self, n: int) -> None:
        """Do nothing: tqdm would move to the line of the bar with newlines and escape codes."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Seconds for a reader: 0.4 s, 37 s, 12 min, 3 h 10 min, 25 h, 1,230 h."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 600:
        return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    hours = minutes / 60
    return f"{round(hours, -1) if hours >= 100 else hours:,.0f} h"


_stream: TextIO | None = None


def stream() -> TextIO:
    """Where progress goes: standard error unless `send_to` named another stream."""
    return _stream or sys.stderr


def send_to(file: TextIO) -> None:
    """Send progress to `file`, e.g. to the terminal when all other output goes to the log of the job."""
    global _stream
    _stream = file


def log_to(path: str) -> TextIO:
    """Send progress to the terminal, which is returned, and all other output, the engines' C++ included, to a log."""
    terminal = os.fdopen(os.dup(2), "w", buffering=1)
    send_to(terminal)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    return terminal
