"""The verdict on one answer."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one answer.

    `verdict` is one of `artifacts.verdicts.VERDICTS`; `reward` is 1.0 if correct, else the partial credit, if any.
    `answer_class` is a digest of the answer's value, null if it has none; answers that are equal under the comparison
    have equal classes. `program_class` is a digest of the canonical program, null if the answer is not a program.
    `reads_table` says whether a SQL answer that ran read a table of the database; null for all other answers.
    """

    verdict: str
    correct: bool
    reward: float
    extracted: str | None = None
    answer_class: str | None = None
    program_class: str | None = None
    detail: str | None = None
    reads_table: bool | None = None

    def __post_init__(self) -> None:
        if bool(self.correct) != (self.verdict == "correct"):
            raise ValueError(
                f"Verdict({self.verdict!r}, correct={self.correct}): expected correct=True with the verdict 'correct' "
                "and with no other; change the scorer that returns it"
            )


class InfrastructureError(RuntimeError):
    """Scoring failed by no fault of an answer: never a zero reward."""


def digest(value: Any) -> str:
    """Hex blake2b (16 bytes) of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


EMPTY_ANSWER: Final = digest("empty result")
"""The `answer_class` of every SQL answer whose result has no rows."""
