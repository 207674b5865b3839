"""A limit on the CPU time of a call."""

import signal
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _TimeUpError(BaseException):
    """The time is up; a BaseException because libraries catch Exception."""


def within(
    seconds: float, call: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result | None:
    """The result of the call, or None once this process has used that much more CPU time: its load does not count.

    The call must run Python code, which a signal can interrupt, in the main thread. It replaces an alarm that was set.
    """
    end = time.process_time() + seconds

    def check(_signal: int, _frame: object) -> None:
        if time.process_time() >= end:
            raise _TimeUpError

    # The clock of the alarm is the wall's: one of CPU time costs more than most calls do.
    previous = signal.signal(signal.SIGALRM, check)
    try:
        try:
            # Again after a while: not enough CPU time may have been used, or a destructor dropped the exception.
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)
            return call(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeUpError:
        # The alarm may have come before the end of the `finally`.
        signal.setitimer(signal.ITIMER_REAL, 0)
        return None
    finally:
        signal.signal(signal.SIGALRM, previous)
