"""Worker processes that can be killed: every task gets a reply, even if its answer crashes the process.

`PooledScorer` is the base of the scorers that judge in them.
"""

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from dphrl.scoring.verdict import InfrastructureError, Scorer, Verdict
from dphrl.scoring.workers.messages import Message, verdict_reply
from dphrl.scoring.workers.process import WorkerLost, WorkerProcess

_MAX_KILLS: Final = 5
_STOPPED: Final = "stopped at the deadline by force, twice: neither steps nor the clock could be seen from within"
_TIME_UP: Final = frozenset({signal.SIGALRM, signal.SIGXCPU})
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})
_LARGEST_BATCH: Final = 64


class Task(Hashable, Protocol):
    """An answer that a worker must judge; equal tasks run once."""

    def message(self) -> Message:
        """The message for the worker, without the id."""

    def verdict(self, reply: Message) -> Verdict:
        """The verdict that the worker's reply means."""


_Task = TypeVar("_Task", bound=Task)
_Truth = Mapping[str, Any]


class Pool:
    """Runs batches of tasks on a few worker processes.

    Args:
        kind: `sql` or `math`.
        options: the handler's options (JSON).
        workers: number of processes, started on first use.
        deadline_s: seconds after which a task's worker is killed; the handler's limits must be lower.
        memory_mib: address space of a worker.
        alone_s: seconds of each run in which tasks may be tried again one at a time; other ranks wait meanwhile.
    """

    def __init__(
        self,
        kind: str,
        options: Message,
        workers: int,
        deadline_s: float,
        memory_mib: int,
        alone_s: float = 600.0,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: expected at least 1")
        self._first = {"kind": kind, "options": options, "memory_mib": memory_mib, "cpu_s": deadline_s}
        self._deadline_s, self._alone_s = deadline_s, alone_s
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

        A task that ran out of time or memory, or whose worker died, runs once more while no other task does, after a
        lack of memory in a new worker. If that happens again, its verdict is timeout, out_of_memory, or runtime_error
        for a crash. After `alone_s` seconds of such tasks, those left run once more in all workers at the same time.
        A task whose worker was killed from outside runs again, a few times.

        Raises InfrastructureError where a worker cannot be started or fails by an error in its code, workers are
        repeatedly killed from outside on one task, or the verdict on a task is `infrastructure_error`.
        """
        queue = deque(batches)
        replies: dict[int, Message] = {}
        suspects: list[_Suspect] = []
        self._stopped.clear()
        executor = ThreadPoolExecutor(max_workers=len(self._slots), thread_name_prefix="scoring")
        try:
            slots = range(min(len(self._slots), len(queue)))
            drains = [executor.submit(self._drain, slot, queue, replies, suspects) for slot in slots]
            _wait(drains)
            again = deque(sorted(suspects, key=lambda suspect: int(suspect.task["id"])))
            self._repeat(0, again, replies, time.monotonic() + self._alone_s)
            slots = range(min(len(self._slots), len(again)))
            _wait([executor.submit(self._repeat, slot, again, replies, math.inf) for slot in slots])
        except BaseException:
            # The threads end when the pipes do; only then may the pipes be closed.
            self._stopped.set()
            for process in filter(None, self._slots):
                process.signal(signal.SIGKILL)
            executor.shutdown(wait=True)
            self.close()
            raise
        executor.shutdown(wait=True)
        return replies

    def close(self) -> None:
        """Kill the workers; the next run starts new ones."""
        for slot in range(len(self._slots)):
            self._end(slot)

    def _end(self, slot: int) -> None:
        process = self._slots[slot]
        if process is not None:
            process.kill()
            self._slots[slot] = None

    def _drain(
        self, slot: int, queue: deque[Sequence[Message]], replies: dict[int, Message], suspects: list["_Suspect"]
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
                    process.send({"tasks": list(pending.values())}, self._deadline_s)
                    while pending and not self._stopped.is_set():
                        reply = process.receive(self._deadline_s)
                        task, renew = pending.pop(reply["id"]), bool(reply.get("renew"))
                        if reply.get("retry"):
                            suspects.append(_Suspect(task, renew))
                        else:
                            replies[task["id"]] = _checked(reply)
                        if renew:
                            self._end(slot)
                            break
                except WorkerLost:
                    # Replies come in the order of the tasks: the first task without one was running.
                    self._slots[slot] = None
                    suspects.append(_Suspect(pending.pop(next(iter(pending)))))

    def _repeat(self, slot: int, suspects: deque["_Suspect"], replies: dict[int, Message], until: float) -> None:
        """Run these tasks again in one worker, up to a time of the monotonic clock; all but those left are taken."""
        while not self._stopped.is_set() and time.monotonic() < until:
            try:
                suspect = suspects.popleft()
            except IndexError:
                return
            replies[suspect.task["id"]] = self._run_again(slot, suspect)

    def _run_again(self, slot: int, suspect: "_Suspect") -> Message:
        task = suspect.task
        if suspect.in_new_worker:
            self._end(slot)
        for _ in range(_MAX_KILLS):
            process = self._worker(slot)
            try:
                process.send({"tasks": [task]}, self._deadline_s)
                reply = _checked(process.receive(self._deadline_s))
                if reply.get("renew"):
                    self._end(slot)
                return reply
            except WorkerLost as loss:
                self._slots[slot] = None
                if self._stopped.is_set():
                    raise
                if loss.late or loss.signal in _TIME_UP:
                    return verdict_reply("timeout", detail=_STOPPED)
                if loss.signal in _CRASHES:
                    detail = f"the worker died of {signal.Signals(loss.signal).name}, twice"
                    return verdict_reply("runtime_error", detail=detail)
                if not loss.outside:
                    problem = f"a scoring worker failed twice by an error in its code: {loss}"
                    raise InfrastructureError(f"{problem}. The task: {str(task)[:500]}") from loss
        raise InfrastructureError(
            f"scoring workers were killed from outside {_MAX_KILLS + 1} times while they judged one answer, which "
            "may not be its fault. Is the machine short of memory, or a file of the environment on a broken disk? "
            f"The task: {str(task)[:500]}"
        )

    def _worker(self, slot: int, retries: int = _MAX_KILLS) -> WorkerProcess:
        """The worker of a slot, started if it is not running."""
        try:
            process = self._slots[slot] = self._slots[slot] or WorkerProcess(self._first)
            return process
        except (WorkerLost, OSError) as error:
            if retries and isinstance(error, WorkerLost) and error.outside:
                return self._worker(slot, retries - 1)
            raise InfrastructureError(f"a scoring worker cannot be started: {error}") from error


def _wait(futures: Sequence[Future[None]]) -> None:
    """Wait until all are done, or one fails: raise its exception."""
    for future in wait(futures, return_when=FIRST_EXCEPTION).done:
        future.result()


class _Suspect(NamedTuple):
    """A task that must run once more."""

    task: Message
    in_new_worker: bool = False


def _checked(reply: Message) -> Message:
    if reply.get("verdict") == "infrastructure_error":
        raise InfrastructureError(str(reply["detail"]))
    return reply


class PooledScorer(Scorer):
    """Base of the scorers that judge in worker processes; `pool` holds these."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def close(self) -> None:
        self.pool.close()

    def _score(
        self,
        responses: Sequence[str],
        truths: Sequence[_Truth],
        judge: Callable[[int, str, _Truth], Verdict | _Task],
    ) -> list[Verdict]:
        """The verdicts of `judge` on each index, response and ground truth; workers judge where it returns a task."""
        if len(responses) != len(truths):
            raise ValueError(f"{len(responses)} answers but {len(truths)} ground truths: expected as many")
        judged = list(map(judge, range(len(responses)), responses, truths))
        replies = self._replies(judgement for judgement in judged if not isinstance(judgement, Verdict))
        return [
            judgement if isinstance(judgement, Verdict) else judgement.verdict(replies[judgement])
            for judgement in judged
        ]

    def _replies(self, tasks: Iterable[_Task]) -> dict[_Task, Message]:
        distinct = list(dict.fromkeys(tasks))
        replies = self.pool.run(self._batches([{"id": n, **task.message()} for n, task in enumerate(distinct)]))
        return {task: replies[n] for n, task in enumerate(distinct)}

    def _batches(self, tasks: list[Message]) -> Iterable[Sequence[Message]]:
        """The tasks in groups, each for one worker; several for each, so that all end at about the same time."""
        size = max(1, min(_LARGEST_BATCH, len(tasks) // (4 * len(self.pool))))
        return [tasks[start : start + size] for start in range(0, len(tasks), size)]
