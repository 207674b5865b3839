r"""The maths scorer: compares the answer in a response with the gold answer by value."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, get_args

from dphrl.config.scorers import MathAnswer, MathComparison, MathDefaults
from dphrl.scoring.math.answers import (
    MAX_CHARACTERS,
    MAX_RESPONSE,
    clean,
    final_answer,
    gold_answer,
    normal_form,
)
from dphrl.scoring.math.members import Member, answer_class, is_near, members
from dphrl.scoring.verdict import Verdict, check_option
from dphrl.scoring.workers.messages import Message
from dphrl.scoring.workers.pool import Pool, PooledScorer

_GRACE_SECONDS: Final = 0.8
_WORDS: Final = re.compile("[A-Za-z][^\\\\]*")
_DOLLAR: Final = re.compile(r"\\?\$")


class MathScorer(PooledScorer):
    r"""Judges mathematical answers by value: equal text, equal numbers, else math-verify in a worker process.

    Args:
        workers: number of processes, started when the first answer needs math-verify.
        timeout_s: seconds a comparison may take.
        memory_mib: address space of a worker.
        answer: `boxed`: the last \boxed{} is the answer; `final`: boxes, else the text after `####` or `A:`, else the
            answer that math-verify finds in the response ("the answer is", the last expression).
        comparison: `rules`: docs/scoring.md; `published`: math-verify alone, for numbers that compare with papers.
    """

    def __init__(
        self,
        workers: int = 1,
        timeout_s: float = MathDefaults.timeout_s,
        memory_mib: int = MathDefaults.memory_mib,
        answer: str = MathDefaults.answer,
        comparison: str = MathDefaults.comparison,
    ) -> None:
        check_option("answer", answer, get_args(MathAnswer))
        check_option("comparison", comparison, get_args(MathComparison))
        # One C call (a huge power) blocks the worker's own alarm: the parent's kill ends it.
        deadline_s = timeout_s + _GRACE_SECONDS
        options = {"timeout_s": timeout_s, "published": comparison == "published"}
        super().__init__(Pool("math", options, workers, deadline_s=deadline_s, memory_mib=memory_mib))
        self._answer, self._comparison = answer, comparison

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Verdicts in the order of the responses; reward 1.0 or 0.0.

        Args:
            responses: model outputs.
            ground_truths: `{"answer": text, number or list of texts, "tolerance"?: number or text, "unit"?}` each. Of
                a list, all are required, in any order; an answer within the tolerance (absolute) is correct.

        Raises:
            ValueError: the lengths differ, or a ground truth lacks an answer, or its tolerance is no finite number.
            InfrastructureError: workers fail by no fault of an answer.
        """
        golds: dict[_Gold, _Gold] = {}

        def judge(index: int, response: str, truth: Mapping[str, Any]) -> Verdict | _Comparison:
            gold = _gold(index, truth)
            return _judge(response, self._answer, golds.setdefault(gold, gold), self._comparison == "published")

        return self._score(responses, ground_truths, judge)

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        r"""Each gold, put in a \boxed{}, compared with itself.

        Verdicts and reasons: ("gold_error", "unrunnable") where it is not correct; else "correct", with `text-only` if
        only the same text is right, or None.
        """
        golds = [_gold(index, truth) for index, truth in enumerate(ground_truths)]
        verdicts = self.score([f"\\boxed{{{gold.text}}}" for gold in golds], ground_truths)
        # The reply to any other answer says whether the gold has a value.
        others = [
            _Comparison(gold, "0=1", "0=1", prose=False)
            for gold, verdict in zip(golds, verdicts, strict=True)
            if verdict.correct
            and self._comparison == "rules"
            and any(member.decimal is None for member in gold.members)
        ]
        replies = self._replies(others).items()
        text_only = {other.gold for other, reply in replies if reply.get("gold_value") is False}
        return [
            ("correct", "text-only" if gold in text_only else None) if verdict.correct else ("gold_error", "unrunnable")
            for gold, verdict in zip(golds, verdicts, strict=True)
        ]


@dataclass(frozen=True)
class _Gold:
    """A gold answer: its clean text with its unit, the largest (absolute) error of a correct answer.

    `written` is the text as it is in the dataset, without `$` and unit.
    """

    text: str
    tolerance: Fraction | None
    written: str

    @cached_property
    def form(self) -> str:
        return normal_form(self.text)

    @cached_property
    def members(self) -> list[Member]:
        return members(self.text)

    @cached_property
    def answer_class(self) -> str:
        return answer_class(self.members)


@dataclass(frozen=True)
class _Comparison:
    """An answer that needs a worker; `text` is clean, but for prose and for the published comparison."""

    gold: _Gold
    extracted: str
    text: str
    prose: bool
    published: bool = False

    def message(self) -> Message:
        tolerance = None if self.gold.tolerance is None else float(self.gold.tolerance)
        gold = f"${self.gold.written}$" if self.published else self.gold.text
        return {"gold": gold, "answer": self.text, "prose": self.prose, "tolerance": tolerance}

    def verdict(self, reply: Message) -> Verdict:
        if "verdict" in reply:
            return Verdict(reply["verdict"], False, 0.0, self.extracted, detail=reply["detail"])
        if not reply["gold_read"]:
            detail = f"math-verify cannot read the gold answer {self.gold.text!r}"
            return Verdict("gold_error", False, 0.0, self.extracted, detail=detail)
        if self.prose and not reply["extracted"]:
            return Verdict("no_answer", False, 0.0)
        extracted = reply["extracted"] if self.prose else self.extracted
        if reply["equal"]:
            return Verdict("correct", True, 1.0, extracted, self.gold.answer_class)
        return _wrong(extracted, members(clean(extracted)), reply["rule"], has_value=reply["gold_value"])


def _wrong(extracted: str, listed: list[Member], rule: str | None = None, has_value: bool = True) -> Verdict:
    """A wrong answer; `detail` names the rule that decided, if one did."""
    text = None if has_value else "the gold answer has no value for math-verify: compared as text"
    return Verdict("wrong", False, 0.0, extracted, answer_class(listed), detail=f"rule: {rule}" if rule else text)


def _gold(index: int, truth: Mapping[str, Any]) -> _Gold:
    answer, tolerance = truth.get("answer"), truth.get("tolerance")
    items = answer if isinstance(answer, list) else [answer]
    texts = [text for text in map(_text, items) if text is not None]
    if not texts or len(texts) < len(items):
        raise ValueError(
            f"ground truth {index}: expected text, a number or a list of them under answer, found {dict(truth)!r}"
        )
    try:
        # The worker compares with a float, and a text may name any power of ten.
        allowed = None if tolerance is None else Fraction(repr(float(tolerance)))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"ground truth {index}: expected a finite number under tolerance, found {tolerance!r}"
        ) from None
    written = list(map(gold_answer, texts))
    unit = truth.get("unit") and clean(str(truth["unit"]))
    text = clean(", ".join(written))
    if unit:
        unit = f"\\text{{ {unit}}}" if _WORDS.fullmatch(unit) else unit
        text = ", ".join(member.text + unit for member in members(text))
    return _Gold(text, allowed, _DOLLAR.sub("", ", ".join(written)))


def _text(item: object) -> str | None:
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    whole = int(item) if isinstance(item, float) and item.is_integer() else item
    # Decimal writes an integer of any length; str refuses more than 4300 digits.
    return str(Decimal(whole)) if isinstance(whole, int) else str(whole)


def _judge(response: str, mode: str, gold: _Gold, published: bool) -> Verdict | _Comparison:
    """The verdict where it needs no algebra, else the comparison that is left for math-verify."""
    final = final_answer(response, mode) if len(response) <= MAX_RESPONSE else None
    if len(gold.text) > MAX_CHARACTERS or not gold.members:
        detail = f"a gold answer of {len(gold.text)} characters, expected 1 to {MAX_CHARACTERS}"
        return Verdict("gold_error", False, 0.0, final and final[0][:MAX_CHARACTERS], detail=detail)
    if len(response) > MAX_RESPONSE:
        detail = f"the response has {len(response)} characters, limit {MAX_RESPONSE}"
        return Verdict("too_large", False, 0.0, detail=detail)
    if final is None:
        return Verdict("no_answer", False, 0.0)
    extracted, prose = final
    if published:
        text = f"\\boxed{{{extracted}}}" if mode == "boxed" else response
        return _Comparison(gold, extracted[:MAX_CHARACTERS], text, prose=False, published=True)
    if len(extracted) > MAX_CHARACTERS:
        detail = f"{len(extracted)} characters, limit {MAX_CHARACTERS}"
        return Verdict("too_large", False, 0.0, extracted[:MAX_CHARACTERS], detail=detail)
    text = clean(extracted)
    listed = members(text)
    if not listed:
        return Verdict("no_answer", False, 0.0, extracted)
    if normal_form(text) == gold.form:
        return Verdict("correct", True, 1.0, extracted, gold.answer_class)
    single = len(gold.members) == len(listed) == 1
    wanted, number = (gold.members[0].decimal, listed[0].decimal) if single else (None, None)
    if wanted is not None and number is not None:
        if is_near(wanted, number, gold.tolerance, gold.text + text):
            return Verdict("correct", True, 1.0, extracted, gold.answer_class)
        if not prose:
            return _wrong(extracted, listed)
    return _Comparison(gold, extracted, extracted if prose else text, prose)
