"""Progress as whole lines, so that jobs that run at the same time can share one terminal or log."""

import os
import sys
import time
from typing import TextIO

from dphrl.machine.cause import print_cause

_SECONDS_BETWEEN_LINES = 5.0
# The share that is done before the remaining time is shown: an engine's start would count as the speed of its answers.
_FORESEEABLE = 0.05


class ProgressLines:
    """Prints every few seconds how much of a long work is done, and the time left.

    Args:
        total: number of items.
        label: the beginning of each line; None prints nothing.
        unit: name of the items.

    Attributes:
        n: items that are done.
        initial: items of these that an earlier process did; None if `reached` was never called.
    """

    def __init__(self, total: int, label: str | None, unit: str) -> None:
        self.n = 0
        self.initial: int | None = None
        self._total, self._label, self._unit = total, label, unit
        self._began, self._text = time.monotonic(), ""
        self._print()

    def reached(self, n: int) -> None:
        """Set the number of items that are done. Those of the first call do not count for the speed."""
        if self.initial is None:
            self.n = self.initial = n
        self.update(n - self.n)

    def update(self, items: int = 1, text: str = "") -> None:
        """Add items that are done, and a text about them."""
        self.n += items
        self.at_work(text)

    def at_work(self, text: str) -> None:
        """Say what was done since the last whole item; a line is printed as often as for items."""
        self._text = text
        if time.monotonic() - self._printed_at >= _SECONDS_BETWEEN_LINES:
            self._print()

    def close(self) -> None:
        """Print the last line, unless it was."""
        if self._printed_n < self.n:
            self._print()

    def _print(self) -> None:
        self._printed_at, self._printed_n = time.monotonic(), self.n
        seconds, done, left = self._printed_at - self._began, self.n - (self.initial or 0), self._total - self.n
        # By the mean speed since the start: a moving mean would count an item from the last printed line on.
        remaining = duration(seconds * left / done) if done > _FORESEEABLE * (done + left) else "?"
        share = f"{self.n / max(self._total, 1):4.0%} {self.n}/{self._total} {self._unit}"
        if self._label is not None:
            parts = [f"{self._label}: {share}", f"{duration(seconds)} < {remaining}", self._text]
            print(", ".join(filter(None, parts)), file=stream(), flush=True)


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


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


def log_to(path: str) -> None:
    """Send progress to the terminal, and all other output to a log: the engines' C++ and the cause of an error too."""
    send_to(os.fdopen(os.dup(2), "w", buffering=1))
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    sys.excepthook = print_cause
