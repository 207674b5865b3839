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
    expand_exponents,
    final_answer,
    gold_answer,
    may_be_equal,
    normal_form,
)
from dphrl.scoring.math.members import Member, answer_class, members
from dphrl.scoring.math.objections import compare
from dphrl.scoring.math.units import agree, quantity
from dphrl.scoring.verdict import Verdict, check_option
from dphrl.scoring.workers.messages import Message
from dphrl.scoring.workers.pool import Pool, PooledScorer

_GRACE_SECONDS: Final = 0.8
_DOLLAR: Final = re.compile(r"\\?\$")
# Answers that say nothing; no gold that the audit knows is one of them.
_CONSTANTS: Final = ("0=1", "x=x", r"\phantom{1}")


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

        def judge(index: int, response: str, truth: Mapping[str, Any]) -> Verdict | _Comparison | _Published:
            gold = _gold(index, truth)
            if self._comparison == "published":
                return _published(response, self._answer, gold)
            return _judge(response, self._answer, golds.setdefault(gold, gold))

        return self._score(responses, ground_truths, judge)

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        r"""Each gold, put in a \boxed{}, compared with itself, and with constants that answer nothing.

        Verdicts and reasons: ("gold_error", "unrunnable") where it is not correct against itself; else "correct" with
        `constant`, a constant is right; `text-only`, only the same text is right; or None.
        """
        golds = [_gold(index, truth) for index, truth in enumerate(ground_truths)]
        verdicts = self.score([f"\\boxed{{{gold.text}}}" for gold in golds], ground_truths)
        probes = [
            _Comparison(gold, constant, constant, False, (_texts(gold.members), (constant,)))
            for gold, verdict in zip(golds, verdicts, strict=True)
            if verdict.correct and self._comparison == "rules" and not all(map(_is_plain, gold.members))
            for constant in _CONSTANTS
        ]
        reached, text_only = set[_Gold](), set[_Gold]()
        for probe, reply in self._replies(probes).items():
            if reply.get("equal"):
                reached.add(probe.gold)
            if reply.get("gold_value") is False:
                text_only.add(probe.gold)
        return [
            ("correct", "constant" if gold in reached else "text-only" if gold in text_only else None)
            if verdict.correct
            else ("gold_error", "unrunnable")
            for gold, verdict in zip(golds, verdicts, strict=True)
        ]


@dataclass(frozen=True)
class _Gold:
    """A gold answer: its clean text, the largest (absolute) error of a correct answer, the unit that may follow.

    `written` is the text as it is in the dataset, without `$`.
    """

    text: str
    tolerance: Fraction | None = None
    unit: str = ""
    written: str = ""

    @cached_property
    def form(self) -> str:
        return normal_form(self.text)

    @cached_property
    def members(self) -> list[Member]:
        return members(self.text)

    @cached_property
    def stated(self) -> str:
        """The unit as the units of answers are read."""
        bare, worded = (quantity(text).unit for text in (f"1 {self.unit}", f"1\\text{{ {self.unit}}}"))
        return bare or worded

    @cached_property
    def answer_class(self) -> str:
        return answer_class(self.members)


@dataclass(frozen=True)
class _Comparison:
    """An answer that needs a worker; `members`: the unmatched members of gold and answer."""

    gold: _Gold
    extracted: str
    text: str
    prose: bool
    members: tuple[tuple[str, ...], tuple[str, ...]]

    def message(self) -> Message:
        tolerance = None if self.gold.tolerance is None else float(self.gold.tolerance)
        gold = self.gold.text
        return {"gold": gold, "answer": self.text, "prose": self.prose, "members": self.members, "tolerance": tolerance}

    def verdict(self, reply: Message) -> Verdict:
        if "verdict" in reply:
            return Verdict(reply["verdict"], False, 0.0, self.extracted, detail=reply["detail"])
        if not reply["gold_read"]:
            detail = f"math-verify cannot read the gold answer {self.gold.text!r}"
            return Verdict("gold_error", False, 0.0, self.extracted, detail=detail)
        if self.prose and not reply["extracted"]:
            return Verdict("no_answer", False, 0.0)
        extracted = reply["extracted"] if self.prose else self.extracted
        based = not self.prose or may_be_equal(normal_form(self.gold.text), normal_form(clean(extracted or "")))
        if reply["equal"] and based:
            return Verdict("correct", True, 1.0, extracted, self.gold.answer_class)
        rule = reply["rule"] or (None if based else "bases")
        return _wrong(extracted, members(clean(extracted)), rule, has_value=reply["gold_value"])


@dataclass(frozen=True)
class _Published:
    """An answer for math-verify alone, as papers call it."""

    gold: str
    response: str
    extracted: str

    def message(self) -> Message:
        return {"gold": self.gold, "answer": self.response, "prose": True}

    def verdict(self, reply: Message) -> Verdict:
        if "verdict" in reply:
            return Verdict(reply["verdict"], False, 0.0, self.extracted, detail=reply["detail"])
        if not reply["gold_read"]:
            detail = f"math-verify cannot read the gold answer {self.gold!r}"
            return Verdict("gold_error", False, 0.0, self.extracted, detail=detail)
        equal, digest = reply["equal"], answer_class(members(clean(self.extracted)))
        return Verdict("correct" if equal else "wrong", equal, float(equal), self.extracted, digest)


def _wrong(extracted: str, listed: list[Member], rule: str | None, has_value: bool = True) -> Verdict:
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
    written = ", ".join(gold_answer(text) for text in texts)
    return _Gold(clean(written), allowed, clean(str(truth.get("unit") or "")), _DOLLAR.sub("", written))


def _text(item: object) -> str | None:
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    whole = int(item) if isinstance(item, float) and item.is_integer() else item
    # Decimal writes an integer of any length; str refuses more than 4300 digits.
    return str(Decimal(whole)) if isinstance(whole, int) else str(whole)


def _published(response: str, mode: str, gold: _Gold) -> Verdict | _Published:
    """The gold as a formula, and the last box or the whole response, for math-verify."""
    final = final_answer(response, mode) if len(response) <= MAX_RESPONSE else None
    judged = _judge(response, mode, gold) if final is None or not gold.members else None
    if isinstance(judged, Verdict):
        return judged
    assert final is not None
    answer = f"\\boxed{{{final[0]}}}" if mode == "boxed" else response
    return _Published(f"${gold.written}$", answer, final[0][:MAX_CHARACTERS])


def _judge(response: str, mode: str, gold: _Gold) -> Verdict | _Comparison:
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
    if len(extracted) > MAX_CHARACTERS:
        detail = f"{len(extracted)} characters, limit {MAX_CHARACTERS}"
        return Verdict("too_large", False, 0.0, extracted[:MAX_CHARACTERS], detail=detail)
    text = clean(extracted).removesuffix(gold.unit)
    listed = members(text)
    if not listed:
        return Verdict("no_answer", False, 0.0, extracted)
    if not prose and normal_form(text) == gold.form:
        return Verdict("correct", True, 1.0, extracted, gold.answer_class)
    units = [member.quantities[-1].unit for member in listed] if gold.unit and not prose else []
    if not all(agree(gold.stated, unit) for unit in units):
        return _wrong(extracted, listed, "units")
    wanted, left = _unmatched(gold, listed)
    if not wanted and not left:
        return Verdict("correct", True, 1.0, extracted, gold.answer_class)
    if not prose and len(wanted) == len(left) == 1:
        decided = compare(wanted[0], left[0], gold.tolerance)
        if decided is not None:
            return _wrong(extracted, listed, decided if isinstance(decided, str) else None)
    if (len(wanted) == len(left) or not prose) and all(map(_is_plain, (*wanted, *left))):
        return _wrong(extracted, listed, None if len(wanted) == len(left) else "count")
    if expand_exponents(extracted if prose else text) is None:
        # math-verify takes 1e999999999 for 1.
        detail = "a power of ten that is out of range"
        return Verdict("wrong", False, 0.0, extracted, answer_class(listed), detail=detail)
    return _Comparison(gold, extracted, extracted if prose else text, prose, (_texts(wanted), _texts(left)))


def _unmatched(gold: _Gold, answers: list[Member]) -> tuple[list[Member], list[Member]]:
    """The members of the gold and of an answer that cannot be paired with an equal one of the other.

    Lists that differ in length stay whole. So do those with a tolerance unless all are numbers, which are paired in
    ascending order: the first number in reach may be needed by another.
    """
    everything = list(gold.members), list(answers)
    if len(gold.members) != len(answers):
        return everything
    if gold.tolerance is not None and len(answers) > 1:
        if not all(map(_is_plain, (*gold.members, *answers))):
            return everything
        pairs = zip(sorted(gold.members, key=_value), sorted(answers, key=_value), strict=True)
        return ([], []) if all(compare(*pair, gold.tolerance) is True for pair in pairs) else everything
    wanted, left = [], list(answers)
    for member in gold.members:
        match = next((other for other in left if compare(member, other, gold.tolerance) is True), None)
        if match is None:
            wanted.append(member)
        else:
            left.remove(match)
    return wanted, left


def _is_plain(member: Member) -> bool:
    return member.is_single and member.value is not None and not member.percent


def _value(member: Member) -> Fraction:
    return member.value or Fraction(0)


def _texts(listed: list[Member]) -> tuple[str, ...]:
    return tuple(member.text for member in listed)
