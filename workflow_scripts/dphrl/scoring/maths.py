r"""The maths scorer: the last \boxed{} of a response against the gold answer."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import TracebackType
from typing import Any, Final, Self

from dphrl.scoring.extract import extract_boxed
from dphrl.scoring.pool import Message, Pool
from dphrl.scoring.verdict import Verdict, digest

MAX_CHARACTERS: Final = 4000
_LARGEST_EXPONENT: Final = 400
_BATCH: Final = 16

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u2060\ufeff]")
_SPACING: Final = re.compile(r"\\[,;:! ]|~|\\quad|\\qquad|\\left(?![a-z])|\\right(?![a-z])|\\displaystyle")
_GAP: Final = re.compile(r"\s+")
_THOUSANDS: Final = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE]([-+]?\d+))?")
_FRACTION: Final = re.compile(r"([-+]?)(?:\\frac\{([-+]?\d+)\}\{([-+]?\d+)\}|(\d+)/(\d+))")
_E_NOTATION: Final = re.compile(r"\d\.?[eE][-+]?\d")


class MathScorer:
    """Judges mathematical answers by value: equal strings, equal rational numbers, else math-verify in a worker.

    Args:
        workers: number of processes, started when the first answer needs math-verify.
        timeout_s: seconds a comparison may take.
        memory_mib: address space of a worker.
    """

    def __init__(self, workers: int = 1, timeout_s: float = 5.0, memory_mib: int = 2048) -> None:
        options = {"timeout_s": timeout_s}
        # One C call (a huge power) is deaf to the worker's own alarm: the parent's kill ends it.
        self.pool = Pool("math", options, workers, deadline_s=timeout_s + 2, memory_mib=memory_mib)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        r"""Verdicts in the order of the responses; reward 1.0 or 0.0.

        Args:
            responses: what the model wrote, its answer in \boxed{}.
            ground_truths: `{"answer": text or number}` each.

        Raises:
            ValueError: the lengths differ, or a ground truth has no answer.
            InfrastructureError: workers fail by no fault of an answer.
        """
        if len(responses) != len(ground_truths):
            raise ValueError(f"{len(responses)} answers but {len(ground_truths)} ground truths: expected as many")
        golds = [_gold(index, truth) for index, truth in enumerate(ground_truths)]
        answers = [extract_boxed(response) for response in responses]
        verdicts: list[Verdict | None] = []
        tasks: dict[tuple[str, str], Message] = {}
        for answer, gold in zip(answers, golds, strict=True):
            verdict = _decide(answer, gold)
            verdicts.append(verdict)
            if verdict is None and answer is not None:
                key = (gold, normalise_answer(answer))
                tasks.setdefault(key, {"id": len(tasks), "gold": gold, "answer": key[1]})
        replies = self.pool.run(_batches(list(tasks.values())))
        return [
            verdict
            if verdict is not None
            else _verdict(str(answer), gold, replies[tasks[gold, normalise_answer(str(answer))]["id"]])
            for verdict, answer, gold in zip(verdicts, answers, golds, strict=True)
        ]

    def parses(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Whether each gold answer can be compared with at all: a number, or something that math-verify can read."""
        golds = [_gold(index, truth) for index, truth in enumerate(ground_truths)]
        readable = [gold for gold in dict.fromkeys(golds) if gold and len(gold) <= MAX_CHARACTERS]
        open_golds = [gold for gold in readable if _rational(gold) is None]
        tasks = [{"id": index, "gold": gold, "answer": None} for index, gold in enumerate(open_golds)]
        replies = self.pool.run(_batches(tasks))
        parsed = {task["gold"]: bool(replies[index].get("gold_parsed")) for index, task in enumerate(tasks)}
        return [parsed[gold] if gold in parsed else _rational(gold) is not None for gold in golds]


def normalise_answer(text: str) -> str:
    """The answer without what does not change its value: control characters, spacing, $, degree signs, a last stop."""
    text = _CONTROL.sub("", text).replace("$", "").replace("\\(", "").replace("\\)", "")
    text = _SPACING.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = text.replace("^{\\circ}", "").replace("^\\circ", "").replace("\u2212", "-")
    # A gap between digits stays: "1 2/3" is not 12/3.
    text = _GAP.sub(lambda gap: " " if _between_digits(gap) else "", text.strip().rstrip("."))
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def _between_digits(gap: re.Match[str]) -> bool:
    start, end = gap.span()
    return gap.string[start - 1 : start].isdigit() and gap.string[end : end + 1].isdigit()


def _rational(text: str) -> Fraction | None:
    """The value of a decimal or a fraction of integers, exactly; None for anything else."""
    number = _NUMBER.fullmatch(text)
    if number is not None:
        exponent = number.group(1)
        if exponent is not None and abs(int(exponent)) > _LARGEST_EXPONENT:
            return None
        return Fraction(text)
    fraction = _FRACTION.fullmatch(text)
    if fraction is None:
        return None
    sign, top, bottom, plain_top, plain_bottom = fraction.groups()
    denominator = int(bottom or plain_bottom)
    if denominator == 0:
        return None
    value = Fraction(int(top or plain_top), denominator)
    return -value if sign == "-" else value


def _decide(answer: str | None, gold: str) -> Verdict | None:
    """The verdict where it needs no algebra, else None."""
    if not gold or len(gold) > MAX_CHARACTERS:
        return Verdict("gold_error", False, 0.0, answer, detail=f"gold answer of {len(gold)} characters")
    if answer is None:
        return Verdict("no_answer", False, 0.0)
    if len(answer) > MAX_CHARACTERS:
        detail = f"{len(answer)} characters, limit {MAX_CHARACTERS}"
        return Verdict("too_large", False, 0.0, answer[:MAX_CHARACTERS], detail=detail)
    text = normalise_answer(answer)
    if not text:
        return Verdict("no_answer", False, 0.0, answer)
    value, gold_value = _rational(text), _rational(gold)
    if text == gold or (value is not None and value == gold_value):
        return Verdict("correct", True, 1.0, answer, _answer_class(gold))
    if value is not None and gold_value is not None and "." not in text + gold:
        return Verdict("wrong", False, 0.0, answer, _answer_class(text))
    if value is None and _E_NOTATION.search(text):
        # math-verify takes 1e999999999 for 1.
        return Verdict("wrong", False, 0.0, answer, _answer_class(text), detail="e-notation that is no plain number")
    return None


def _verdict(answer: str, gold: str, reply: Message) -> Verdict:
    if "verdict" in reply:
        return Verdict(reply["verdict"], False, 0.0, answer, detail=reply.get("detail"))
    if not reply["gold_parsed"]:
        return Verdict("gold_error", False, 0.0, answer, detail=f"math-verify cannot read the gold answer {gold!r}")
    if reply["equal"]:
        return Verdict("correct", True, 1.0, answer, _answer_class(gold))
    return Verdict("wrong", False, 0.0, answer, _answer_class(normalise_answer(answer)))


def _answer_class(text: str) -> str:
    """Class of a normalised answer; a correct one has its gold's."""
    value = _rational(text)
    return digest(text if value is None else [f"{value.numerator:x}", f"{value.denominator:x}"])


def _gold(index: int, truth: Mapping[str, Any]) -> str:
    answer = truth.get("answer")
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise ValueError(f"ground truth {index}: expected text or a number under answer, found {dict(truth)!r}")
    text = str(answer)
    boxed = extract_boxed(text)
    return normalise_answer(text if boxed is None else boxed)


def _batches(tasks: list[Message]) -> list[list[Message]]:
    return [tasks[start : start + _BATCH] for start in range(0, len(tasks), _BATCH)]
