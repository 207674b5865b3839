"""The interface of all scorers, and the base of those that judge in worker processes."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

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

    def __exit__(self, *error: object) -> None:
        self.close()


class Task(Hashable, Protocol):
    """An answer that a worker must judge; equal tasks run once."""

    def message(self) -> Message:
        """What the worker gets, without the id."""

    def verdict(self, reply: Message) -> Verdict:
        """The verdict that the worker's reply means."""


_Task = TypeVar("_Task", bound=Task)
_Answer = TypeVar("_Answer")
_Truth = Mapping[str, Any]
_BATCH: Final = 16


class PooledScorer(Scorer):
    """Base of the scorers that judge in worker processes; `pool` holds these."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def close(self) -> None:
        self.pool.close()

    def _score(
        self,
        answers: Sequence[_Answer],
        truths: Sequence[_Truth],
        judge: Callable[[int, _Answer, _Truth], Verdict | _Task],
    ) -> list[Verdict]:
        """The verdicts of `judge` on each index, answer and ground truth; workers judge where it returns a task."""
        if len(answers) != len(truths):
            raise ValueError(f"{len(answers)} answers but {len(truths)} ground truths: expected as many")
        judged = list(map(judge, range(len(answers)), answers, truths))
        replies = self._replies(one for one in judged if not isinstance(one, Verdict))
        return [one if isinstance(one, Verdict) else one.verdict(replies[one]) for one in judged]

    def _replies(self, tasks: Iterable[_Task]) -> dict[_Task, Message]:
        distinct = list(dict.fromkeys(tasks))
        replies = self.pool.run(self._batches([{"id": n, **task.message()} for n, task in enumerate(distinct)]))
        return {task: replies[n] for n, task in enumerate(distinct)}

    def _batches(self, tasks: list[Message]) -> Iterable[Sequence[Message]]:
        """The tasks in groups, each for one worker."""
        return [tasks[start : start + _BATCH] for start in range(0, len(tasks), _BATCH)]


def check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the value of an option is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: expected one of {', '.join(allowed)}")
