"""The verdict on one answer, and the interface of the scorers that give it."""

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Protocol, Self

from dphrl.data.answer_text import answer_part
from dphrl.store.verdicts import VERDICTS


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one answer.

    `verdict` is one of `store.verdicts.VERDICTS`; `reward` is 1.0 if correct, else the partial credit, if any.
    `answer_class` is a digest of the answer's value, null without a value; answers that are equal under the comparison
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


class InfrastructureError(RuntimeError):
    """Scoring failed by no fault of an answer: never a zero reward."""


def digest(value: Any) -> str:
    """Hex blake2b (16 bytes) of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


EMPTY_ANSWER: Final = digest("empty result")
"""The `answer_class` of every SQL answer with an empty result."""


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


def checked_score(
    scorer: Scorer, texts: Sequence[str | None], ground_truths: Sequence[Mapping[str, Any]], without: Verdict
) -> list[Verdict]:
    """The scorer's verdicts on the texts, and the verdict `without` in place of each text that is None.

    A custom scorer may return anything: raises `TypeError` or `ValueError`, which name its file, unless that is one
    `Verdict` for each response.
    """
    pairs = [(text, truth) for text, truth in zip(texts, ground_truths, strict=True) if text is not None]
    returned: Any = scorer.score([text for text, _ in pairs], [truth for _, truth in pairs])
    where = f"{inspect.getsourcefile(type(scorer).score)}: {type(scorer).__name__}.score"
    expected = "expected one Verdict for each response, in their order"
    if not isinstance(returned, Iterable):
        raise TypeError(f"{where} returned {returned!r:.60}: {expected}")
    verdicts: list[Any] = list(returned)
    for index, verdict in enumerate(verdicts):
        if not isinstance(verdict, Verdict):
            shown = f"{verdict!r:.60} ({type(verdict).__name__}) for response {index}"
            example = "Verdict('correct', True, 1.0) or Verdict('wrong', False, 0.0)"
            raise TypeError(f"{where} returned {shown}: {expected}, for instance {example}")
        if verdict.verdict not in VERDICTS:
            raise ValueError(f"{where} returned the verdict {verdict.verdict!r}: expected {', '.join(VERDICTS)}")
        notes = (verdict.extracted, verdict.answer_class, verdict.program_class, verdict.detail)
        # NumPy's bool too; a worker process does not import it.
        typed = type(verdict.correct).__name__ in ("bool", "bool_") and isinstance(verdict.reward, Real)
        consistent = bool(verdict.correct) == (verdict.verdict == "correct")
        written = all(isinstance(note, str | None) for note in notes)
        if not (typed and consistent and written and 0.0 <= verdict.reward <= 1.0):
            raise ValueError(
                f"{where} returned {verdict!r:.300} for response {index}: expected correct=True with the verdict"
                " 'correct' and correct=False with any other, a reward from 0 to 1, and texts"
            )
    if len(verdicts) != len(pairs):
        raise ValueError(f"{where} returned {len(verdicts)} verdicts for {len(pairs)} responses: {expected}")
    rest = iter(verdicts)
    return [without if text is None else next(rest) for text in texts]


STILL_THINKING: Final = Verdict("no_answer", False, 0.0, detail="still thinking at the limit")


def score_answers(
    scorer: Scorer,
    thoughts: Mapping[str, str],
    responses: Sequence[str],
    ground_truths: Sequence[Mapping[str, Any]],
    opened: Sequence[bool],
) -> list[Verdict]:
    """Verdicts in the order of the responses. The scorer sees no thoughts, and no response that only thinks.

    Args:
        thoughts: the end of a thought by its opening.
        opened: for each response, whether its prompt ends inside of a thought.
    """
    answers = [answer_part(text, thoughts, inside) for text, inside in zip(responses, opened, strict=True)]
    return checked_score(scorer, answers, ground_truths, without=STILL_THINKING)


def check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the value of an option is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: expected one of {', '.join(allowed)}")
