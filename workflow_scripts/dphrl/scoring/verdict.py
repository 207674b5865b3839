"""What a scorer says about one answer."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one answer.

    `verdict` is one of VERDICTS; `reward` is 1.0 if correct, else the partial credit (0.0 where there is none).
    `answer_class` is a digest of what the answer evaluates to, null if it does not; answers that are equal under the
    comparison have equal classes. `program_class` is a digest of the canonical program, null if unparsed or no program.
    """

    verdict: str
    correct: bool
    reward: float
    extracted: str | None = None
    answer_class: str | None = None
    program_class: str | None = None
    detail: str | None = None


class InfrastructureError(RuntimeError):
    """Scoring could not be done for a reason that is not the answer's: never a zero reward."""


def digest(value: Any) -> str:
    """Hex blake2b (16 bytes) of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


EMPTY_ANSWER: Final = digest("empty result")
"""The `answer_class` of every SQL answer whose result has no rows."""
