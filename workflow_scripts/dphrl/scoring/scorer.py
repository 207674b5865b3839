"""The interface of all scorers, and the base of those that judge in worker processes."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from dphrl.scoring.verdict import Verdict
from dphrl.scoring.workers.messages import Message
from dphrl.scoring.workers.pool import Pool


class Scorer(Protocol):
    """Judges responses against ground truths; a context manager that closes itself."""

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Verdicts in the order of the responses; a ground truth is the row's `ground_truth` object."""

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """For each gold answer the verdict on it as a response, and the reason not to use it, or None."""

    def close(self) -> None:
        """Release worker processes and other resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Task(Hashable, Protocol):
    """An answer that a worker must judge; equal tasks run once."""

    def message(self) -> Message:
        """What the worker gets, without the id."""

    def verdict(self, reply: Message) -> Verdict:
        """The verdict that the worker's reply means."""


_Task = TypeVar("_Task", bound=Task)


class PooledScorer(Scorer):
    """Base of the scorers that judge in worker processes; `pool` holds these."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def _batches(self, tasks: list[Message]) -> Iterable[Sequence[Message]]:
        raise NotImplementedError

    def _replies(self, tasks: Iterable[_Task]) -> dict[_Task, Message]:
        distinct = list(dict.fromkeys(tasks))
        replies = self.pool.run(self._batches([{"id": n, **task.message()} for n, task in enumerate(distinct)]))
        return {task: replies[n] for n, task in enumerate(distinct)}

    def _finish(self, judged: Sequence[Verdict | _Task]) -> list[Verdict]:
        """The verdicts; the tasks among them are judged by the workers."""
        replies = self._replies(one for one in judged if not isinstance(one, Verdict))
        return [one if isinstance(one, Verdict) else one.verdict(replies[one]) for one in judged]


def check_lengths(answers: Sequence[object], ground_truths: Sequence[object]) -> None:
    """Raise ValueError unless there is one ground truth for each answer."""
    if len(answers) != len(ground_truths):
        raise ValueError(f"{len(answers)} answers but {len(ground_truths)} ground truths: expected as many")
