"""Worker processes that can be killed: every task gets a reply, whatever an answer does to the process that judges it.

Workers are started on first use with `subprocess`, not `multiprocessing`: the caller's `__main__` (a Snakemake script,
a notebook) is not run again in them, and nothing of a parent with threads or a GPU is forked.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import dphrl
from dphrl.scoring import worker
from dphrl.scoring.verdict import InfrastructureError

Message = dict[str, Any]

START_SECONDS: Final = 120.0
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_START: Final = f"import sys; sys.path.insert(0, sys.argv[1]); from {worker.__name__} import main; main()"


class WorkerLost(Exception):
    """A worker is gone; `late` if this process killed it at the deadline, else `returncode` says how it ended."""

    def __init__(self, late: bool, returncode: int | None, stderr: str) -> None:
        self.late, self.returncode, self.stderr = late, returncode, stderr
        how = "was killed at the deadline" if late else f"ended with status {returncode}"
        super().__init__(f"the worker {how}{': ' if stderr else ''}{stderr}")


class WorkerProcess:
    """One child process and the pipes to it."""

    def __init__(self, first: Message) -> None:
        root = str(Path(dphrl.__file__).parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        os.set_blocking(self._stdout.fileno(), False)
        os.set_blocking(self._stderr.fileno(), False)
        self._buffer = bytearray()
        self.send(first)
        self.receive(START_SECONDS)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """Write a message; the worker reads it whole before it works on it, so this does not block for long."""
        try:
            self._stdin.write(worker.encode(message))
            self._stdin.flush()
        except BrokenPipeError:
            raise self._lost(late=False) from None

    def receive(self, seconds: float) -> Message:
        """The next reply; raises WorkerLost at the end of the pipe or after `seconds`, with the worker then dead."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._stdout.fileno(), select.POLLIN)
        size = worker.HEADER.size
        while True:
            if len(self._buffer) >= size:
                (length,) = worker.HEADER.unpack_from(self._buffer)
                if len(self._buffer) >= size + length:
                    data = bytes(self._buffer[size : size + length])
                    del self._buffer[: size + length]
                    return dict(json.loads(data))
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise self._lost(late=True)
            block = os.read(self._stdout.fileno(), 1 << 16)
            if not block:
                raise self._lost(late=False)
            self._buffer += block

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it is still there."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the process now and close the pipes."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _lost(self, late: bool) -> WorkerLost:
        if not late:
            # The pipe closes a moment before the exit status is there.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
        returncode = self._process.poll()
        stderr = b""
        with contextlib.suppress(OSError, ValueError):
            stderr = self._stderr.read() or b""
        self.kill()
        return WorkerLost(late, returncode, stderr.decode("utf-8", "replace").strip()[-2000:])


class Pool:
    """Judges batches of tasks on a few worker processes.

    Args:
        kind: `sql` or `math`.
        options: the handler's options (JSON).
        workers: number of processes, started on first use.
        deadline_s: seconds after which a task's worker is killed; the handler's own limits must lie below.
        memory_mib: address space of a worker.
    """

    def __init__(self, kind: str, options: Message, workers: int, deadline_s: float, memory_mib: int) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: expected at least 1")
        self._first = {"kind": kind, "options": options, "memory_mib": memory_mib, "cpu_s": deadline_s}
        self._deadline_s = deadline_s
        self._slots: list[WorkerProcess | None] = [None] * workers
        self._stopped = threading.Event()

    def __len__(self) -> int:
        """The number of workers, running or not."""
        return len(self._slots)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [process.pid for process in self._slots if process is not None]

    def run(self, batches: Iterable[Sequence[Message]]) -> dict[int, Message]:
        """Replies by the tasks' `id`; tasks of a batch run one after the other in one worker.

        A task that ran out of time, or whose worker died, is tried once more, alone on the machine as far as this pool
        goes. What it then does is its reply: `verdict` timeout, or runtime_error for a crash.

        Raises:
            InfrastructureError: a worker cannot be started, ends by its own error, or is killed twice from outside; or
                a task reports a fault that is not the answer's.
        """
        queue = deque(list(batch) for batch in batches)
        replies: dict[int, Message] = {}
        suspects: list[Message] = []
        self._stopped.clear()
        executor = ThreadPoolExecutor(max_workers=len(self._slots), thread_name_prefix="scoring")
        try:
            slots = range(min(len(self._slots), len(queue)))
            drains = [executor.submit(self._drain, slot, queue, replies, suspects) for slot in slots]
            for drain in drains:
                drain.result()
            for task in sorted(suspects, key=lambda task: int(task["id"])):
                replies[task["id"]] = self._alone(task)
        except BaseException:
            # The threads see the end of the pipes; only when they are through may the pipes be closed.
            self._stopped.set()
            for process in self._slots:
                if process is not None:
                    process.signal(signal.SIGKILL)
            executor.shutdown(wait=True)
            self.close()
            raise
        executor.shutdown(wait=True)
        return replies

    def close(self) -> None:
        """Kill the workers; the next run starts new ones."""
        for slot, process in enumerate(self._slots):
            if process is not None:
                process.kill()
                self._slots[slot] = None

    def _drain(
        self, slot: int, queue: deque[list[Message]], replies: dict[int, Message], suspects: list[Message]
    ) -> None:
        while not self._stopped.is_set():
            try:
                batch = queue.popleft()
            except IndexError:
                return
            pending = {task["id"]: task for task in batch}
            while pending and not self._stopped.is_set():
                process = self._worker(slot)
                try:
                    process.send({"tasks": list(pending.values())})
                    while pending and not self._stopped.is_set():
                        reply = process.receive(self._deadline_s)
                        task = pending.pop(reply["id"])
                        if reply["status"] == "wall":
                            suspects.append(task)
                        else:
                            replies[task["id"]] = _without_fault(reply)
                except WorkerLost:
                    # Replies come in the order of the tasks: the first without one was being judged.
                    self._slots[slot] = None
                    suspects.append(pending.pop(next(iter(pending))))

    def _alone(self, task: Message) -> Message:
        process = self._worker(0)
        try:
            process.send({"tasks": [task]})
            return _without_fault(process.receive(self._deadline_s))
        except WorkerLost as loss:
            self._slots[0] = None
            code = loss.returncode or 0
            if loss.late or -code == signal.SIGXCPU:
                detail = f"the worker did not answer within {self._deadline_s:g} s, twice"
                return {"status": "wall", "verdict": "timeout", "detail": detail, "id": task["id"]}
            if -code in _CRASHES:
                detail = f"the worker died of {signal.Signals(-code).name}, twice"
                return {"status": "done", "verdict": "runtime_error", "detail": detail, "id": task["id"]}
            raise InfrastructureError(
                f"a scoring worker was lost twice, by no fault of the answer that can be seen: {loss}. If it was "
                f"killed from outside, is the machine short of memory? The task: {str(task)[:500]}"
            ) from loss

    def _worker(self, slot: int) -> WorkerProcess:
        process = self._slots[slot]
        if process is None:
            try:
                process = WorkerProcess(self._first)
            except (WorkerLost, OSError) as error:
                raise InfrastructureError(f"a scoring worker cannot be started: {error}") from error
            self._slots[slot] = process
        return process


def _without_fault(reply: Message) -> Message:
    if reply["status"] == "fault":
        raise InfrastructureError(str(reply["detail"]))
    return reply
