"""The parent's side of one worker process: sends messages and receives replies, each within a deadline.

Workers are started with `subprocess`, not `multiprocessing`: the caller's `__main__` (a Snakemake script, a notebook)
does not run again in them, and a parent with threads or a GPU is not forked.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Final

import dphrl
from dphrl.scoring.workers import worker
from dphrl.scoring.workers.messages import Message, encode

START_SECONDS: Final = 120.0
_START: Final = f"import sys; sys.path.insert(0, sys.argv[1]); from {worker.__name__} import main; main()"
# The address space is limited: glibc's allocator, and one arena, as a second one would take 64 MiB.
_ENVIRONMENT: Final = {
    "LD_PRELOAD": "",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # SQLite's modifier 'localtime' is the same on every machine.
    "TZ": "UTC0",
}
# SIGBUS: a file of Python or of a library is lost. A worker maps no other, so no answer can ask for this signal.
_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGBUS})


class WorkerLost(Exception):
    """A worker ended: `late` if this process killed it at the deadline, else by `signal` (0: by itself).

    `outside`: no answer did it but a user, a batch system, or the kernel when memory ran out or a file was lost.
    """

    def __init__(self, late: bool, returncode: int | None, stderr: str) -> None:
        how = "was killed at the deadline" if late else f"ended with status {returncode}"
        super().__init__(f"the worker {how}{': ' if stderr else ''}{stderr}")
        self.late = late
        self.signal = 0 if late or returncode is None else max(0, -returncode)
        self.outside = self.signal in _OUTSIDE


class WorkerProcess:
    """A child process and the pipes to it; every method may raise WorkerLost, after which the child is dead."""

    def __init__(self, first: Message) -> None:
        """Start it, and send its `first` message: kind, options, memory_mib, cpu_s."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(Path(dphrl.__file__).parent.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._stdin, self._stdout, self._stderr = map(_non_blocking, pipes)
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(self._stdin, select.POLLOUT)
        self._readable.register(self._stdout, select.POLLIN)
        self._buffer = b""
        self.send(first, START_SECONDS)
        self.receive(START_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, seconds: float) -> None:
        """Write a message; a worker that did not read it after `seconds` (it may be frozen) is killed."""
        deadline = time.monotonic() + seconds
        data = memoryview(encode(message))
        try:
            while data:
                self._wait(self._writable, deadline)
                data = data[os.write(self._stdin.fileno(), data) :]
        except BrokenPipeError:
            raise self._lost(late=False) from None

    def receive(self, seconds: float) -> Message:
        """The next reply; a worker that did not send it after `seconds` is killed."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            self._wait(self._readable, deadline)
            block = os.read(self._stdout.fileno(), 1 << 16)
            if not block:
                raise self._lost(late=False)
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: Message = json.loads(line)
        return reply

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it is still running."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the process at once and close the pipes."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    def _wait(self, poll: select.poll, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise self._lost(late=True)

    def _lost(self, late: bool) -> WorkerLost:
        if not late:
            # The pipe closes a moment before the exit status is known.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
        returncode = self._process.poll()
        stderr = self._stderr.read() or b""
        self.kill()
        return WorkerLost(late, returncode, stderr.decode("utf-8", "replace").strip()[-2000:])


def _non_blocking(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    os.set_blocking(stream.fileno(), False)
    return stream
