"""What every scorer can do, whatever it judges."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from dphrl.scoring.verdict import Verdict


class Scorer(Protocol):
    """Judges responses against ground truths; a context manager that closes itself."""

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Verdicts in the order of the responses."""

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """For each gold the verdict on it as an answer to itself, and why it should not be used, or None."""

    def close(self) -> None:
        """Release worker processes and whatever else the scorer holds."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
