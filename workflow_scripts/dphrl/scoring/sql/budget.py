"""A limit on the CPU time of a call."""

import signal
import types
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

    The call must run Python code, which a signal can interrupt, in the main thread.
    """
    signal.signal(signal.SIGPROF, _raise_time_up)
    try:
        try:
            # Again after a while: in a destructor, the exception would be dropped.
            signal.setitimer(signal.ITIMER_PROF, seconds, seconds / 10)
            return call(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _TimeUpError:
        # The alarm may have come before the end of the `finally`.
        signal.setitimer(signal.ITIMER_PROF, 0)
        return None


def _raise_time_up(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError
