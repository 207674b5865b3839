"""Compares two mathematical answers inside a worker process."""

import logging
import re
import signal
import types
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, Final

from dphrl.scoring.math.answers import expand_exponents
from dphrl.scoring.math.forms import DEGREE
from dphrl.scoring.math.letters import distinct
from dphrl.scoring.math.members import AND, Member, is_set
from dphrl.scoring.math.objections import compare
from dphrl.scoring.math.relations import symbols
from dphrl.scoring.math.units import CURRENCY, Quantity
from dphrl.scoring.workers.messages import Message, verdict_reply

# Letters for a reader, functions or Euler's constant for the library; it knows omicron, which nobody writes.
_GAMMA: Final = re.compile(r"\\gamma(?![A-Za-z])|\\Gamma(?![A-Za-z]|\s*(?:\\left\s*)?\()")
_LETTER: Final = r"\\omicron"
_SIGNS: Final = str.maketrans("", "", DEGREE + CURRENCY)
_IN: Final = re.compile(r"\\in(?![A-Za-z])")
_GOLDS: Final = 64
# Half a unit of the last digit is no binary number.
_ROUNDING: Final = 1 + 1e-12


class _TimeUpError(BaseException):
    """The time is up; a BaseException because the libraries below catch Exception."""


class MathHandler:
    """Compares two answers by rules and by math-verify.

    Task: gold and answer (LaTeX; with `prose`, a text that contains it; published: as the library reads them), members
    (the unmatched members of gold and answer, LaTeX), tolerance (null or float, absolute). Reply:
    gold_read (parsed at all), gold_value (parsed as more than text), equal, rule (the first that objects, or null),
    extracted (str|null); or as `verdict_reply`.
    """

    def __init__(self, options: Message) -> None:
        import math_verify
        from sympy.core.cache import clear_cache

        from dphrl.scoring.math.guards import (
            complex_value,
            equal,
            equal_for_positive,
            guard,
            one_to_one,
            solutions,
            union,
        )

        logging.disable(logging.CRITICAL)
        self._library = math_verify
        self._equal, self._one_to_one, self._solutions, self._union = equal, one_to_one, solutions, union
        self._complex, self._equal_for_positive = complex_value, equal_for_positive
        default = math_verify.LatexExtractionConfig()
        # Units and inner boxes are dropped by rules, never by the library.
        strict = replace(default.normalization_config, units=False, boxed="none")
        self._units_kept = [replace(default, normalization_config=strict)]
        self._units_dropped = [default]
        self._prose = [default, math_verify.ExprExtractionConfig()]
        self._clear_cache = clear_cache
        self._timeout_s: float = options["timeout_s"]
        self._published: bool = options["published"]
        self._gold: Callable[[str], list[Any]] = lru_cache(_GOLDS)(self._parse)
        self._objections: list[str] = []
        if not self._published:
            guard()
        # The first use compiles patterns, builds the grammar, imports simplifiers; no answer should pay for that.
        self._same(self._parse("\\frac{1}{2}"), math_verify.parse("it is 1/2", self._prose, parsing_timeout=None), None)
        self._same(self._parse("x+\\sqrt{2}"), self._parse("2\\pi x"), None)
        signal.signal(signal.SIGALRM, _raise_time_up)

    def run(self, task: Message) -> Message:
        gold: list[Any] | None = None
        try:
            # The library's own time limits are whole seconds, twice per comparison: this one replaces them.
            signal.setitimer(signal.ITIMER_REAL, self._timeout_s)
            try:
                gold = self._gold_of(task)
                return self._compare(gold, task)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except _TimeUpError:
            self._clear_cache()
            verdict, state = ("gold_error", "gold not read") if gold is None else ("timeout", "not compared")
            return verdict_reply(verdict, detail=f"{state} after {self._timeout_s:g} s", retry=True)
        except MemoryError:
            self._clear_cache()
            return verdict_reply("out_of_memory", detail="the comparison needs more memory than it may use")
        except RecursionError:
            return verdict_reply("wrong", detail="nested too deeply to be compared")

    def _gold_of(self, task: Message) -> list[Any]:
        if self._published:
            return list(self._library.parse(task["gold"], parsing_timeout=None))
        return self._parse(task["gold"], self._units_dropped) if task["prose"] else self._gold(task["gold"])

    def _compare(self, gold: list[Any], task: Message) -> Message:
        self._objections.clear()
        if self._published:
            answer = self._library.parse(task["answer"], parsing_timeout=None)
            return _reply(gold, self._library.verify(gold, answer, timeout_seconds=None), None, answer)
        tolerance = task["tolerance"]
        if task["prose"]:
            read = self._library.parse(_GAMMA.sub(_LETTER, task["answer"]), self._prose, parsing_timeout=None)
            answer = [self._complex(value) for value in read]
            return _reply(gold, self._same(gold, answer, tolerance), None, answer)
        wanted, left = task["members"]
        gold_text, answer_text, *parts = distinct([task["gold"], task["answer"], *wanted, *left])
        task = task | {"gold": gold_text, "answer": answer_text}
        golds = [Member(text, len(wanted) > 1) for text in parts[: len(wanted)]]
        answers = [Member(text, len(left) > 1) for text in parts[len(wanted) :]]
        if len(golds) == len(answers):
            equal = self._one_to_one(golds, answers, lambda gold, answer: self._pair(gold, answer, tolerance))
        else:
            equal = self._lists(task, golds, answers, tolerance)
        has_value = all(self._has_value(member) for member in golds)
        return _reply(gold, equal, next(iter(self._objections), None), []) | {"gold_value": has_value}

    def _has_value(self, gold: Member) -> bool:
        """Whether an answer in other words can be equal to a gold."""
        if gold.refused:
            return False
        parts = [quantity.value for quantity, _ in gold.accepted] or [gold.text]
        return all(not isinstance(value, str) for part in parts for value in self._gold(part)[:1])

    def _pair(self, gold: Member, answer: Member, tolerance: float | None) -> bool:
        """Whether two members are equal; the rule that objects is noted."""
        decided = compare(gold, answer, None if tolerance is None else Fraction(repr(tolerance)))
        if isinstance(decided, str):
            self._objections.append(decided)
            return False
        if decided is not None:
            return decided
        if gold.entries and answer.entries and (answer.is_single or self._agree(answer)):
            return self._entries(gold, answer, tolerance)
        if answer.sides.kind == "unsolved" and gold.accepted:
            return self._solves([gold], answer, tolerance)
        if not self._agree(answer):
            self._objections.append("relation")
            return False
        for (wanted, error), shown in product(gold.accepted, answer.shown):
            if self._values(wanted, shown, tolerance if error is None else float(error)):
                return True
        equations = gold.sides.is_equation and answer.sides.is_equation
        whole = equations or not {gold.sides.kind, answer.sides.kind}.isdisjoint(("inequality", "other"))
        return whole and self._wholes([gold], [answer], (gold.text, answer.text), tolerance)

    def _entries(self, gold: Member, answer: Member, tolerance: float | None) -> bool:
        """Tuples, points and intervals by their entries: the library takes `[5,3]` and `(7,2)` for empty intervals."""
        if gold.ends != answer.ends or len(gold.entries) != len(answer.entries):
            self._objections.append("brackets")
            return False
        pairs = zip(gold.entries, answer.entries, strict=True)
        return all(self._pair(wanted, entry, tolerance) for wanted, entry in pairs)

    def _values(self, gold: Quantity, answer: Quantity, tolerance: float | None) -> bool:
        return self._same(self._gold(gold.value), self._parse(answer.value), tolerance)

    def _agree(self, answer: Member) -> bool:
        r"""Whether the sides of `a = b \approx c` that are numbers are equal; c at its digits."""
        sides = [(self._parse(quantity.value), error) for quantity, error in answer.all_sides]
        for (left, _), (right, error) in pairwise(sides):
            numbers = all(not isinstance(side[0], str) and not side[0].free_symbols for side in (left, right) if side)
            allowed = None if error is None else float(error)
            if (numbers or answer.sides.kind == "computed") and not self._same(left, right, allowed):
                return False
        return True

    def _solves(self, golds: list[Member], answer: Member, tolerance: float | None) -> bool:
        """Whether the golds are the solutions of an equation."""
        roots = [root for equation in self._parse(answer.text)[:1] for root in self._solutions(equation)]
        wanted = [self._gold(gold.accepted[0][0].value) for gold in golds if gold.accepted]
        values = [[root] for root in roots]
        equal = self._one_to_one(wanted, values, lambda gold, root: self._same(gold, root, tolerance))
        if not equal:
            self._objections.append("solutions")
        return equal and len(wanted) == len(golds)

    def _lists(self, task: Message, golds: list[Member], answers: list[Member], tolerance: float | None) -> bool:
        r"""Lists of unequal length: `\pm 2` is two values, an equation its solutions, `x<1 \text{ or } x>2` a set."""
        if len(answers) == 1 and answers[0].sides.kind == "unsolved":
            return self._solves(golds, answers[0], tolerance)
        texts = task["gold"], task["answer"]
        tuples = [listed[0] for listed in (golds, answers) if len(listed) == 1 and listed[0].entries]
        if any(map(is_set, texts)) and (tuples or texts[0].count("\\{") != texts[1].count("\\{")):
            self._objections.append("brackets")
            return False
        # The library reads `1,2` as an interval.
        if {_is_interval(golds), _is_interval(answers)} == {True, False}:
            self._objections.append("count")
            return False
        ordered = self._ordered(texts, golds, answers)
        if ordered:
            return all(self._pair(gold, answer, tolerance) for gold, answer in zip(*ordered, strict=True))
        if tuples:
            self._objections.append("brackets")
            return False
        equal = self._wholes(golds, answers, texts, tolerance)
        if not equal:
            self._objections.append("count")
        return equal

    def _ordered(
        self, texts: tuple[str, str], golds: list[Member], answers: list[Member]
    ) -> tuple[list[Member], list[Member]] | None:
        """A tuple and a list with commas as two lists of one length; `x=1,x=2` is no point, `(1,2]` an interval."""
        point, listed = (golds[0], answers) if len(golds) == 1 else (answers[0], golds)
        one_name = len(listed) > 1 and len({member.sides.name for member in listed} | {""}) == 2
        if one_name or (len(point.entries) == 2 and point.ends != ("(", ")")):
            return None
        if len(golds) == 1 and ";" not in texts[1]:
            golds = golds[0].entries
        elif len(answers) == 1 and ";" not in texts[0]:
            answers = answers[0].entries
        return (golds, answers) if len(golds) == len(answers) > 0 else None

    def _wholes(
        self, golds: list[Member], answers: list[Member], texts: tuple[str, str], tolerance: float | None
    ) -> bool:
        """Whether two texts are equal as a whole; inequalities are compared by the sets on which they hold."""
        sets = self._set(golds), self._set(answers)
        if all(sets) and _symbols(golds) != _symbols(answers):
            return False
        return self._same(sets[0] or self._gold(texts[0]), sets[1] or self._parse(texts[1]), tolerance)

    def _set(self, listed: list[Member]) -> list[Any]:
        """The set where one of several inequalities holds, or nothing."""
        if len(_symbols(listed)) != 1 or any(member.sides.kind != "inequality" for member in listed):
            return []
        alternatives = [[self._parse(part)[:1] for part in member.text.split(AND) if part] for member in listed]
        # The library finds nothing in `3<x!!`.
        if not all(value for every in alternatives for value in every):
            return []
        return self._union([[value for (value,) in every] for every in alternatives])

    def _same(self, gold: list[Any], answer: list[Any], tolerance: float | None) -> bool:
        if any(self._equal(wanted, reading) for wanted, reading in product(gold, answer)):
            return True
        if any(map(self._equal_for_positive, gold[:1], answer[:1])):
            return True
        if tolerance is None or not gold or not answer:
            return False
        try:
            return bool(abs((gold[0] - answer[0]).evalf()) <= tolerance * _ROUNDING)
        except (MemoryError, RecursionError):
            raise
        except Exception:
            # As in math-verify: a failed comparison is not equal. A pole is a ZeroDivisionError, text a TypeError.
            return False

    def _parse(self, text: str, reading: list[Any] | None = None) -> list[Any]:
        """Value and text that the library finds; only the text if it is no value, nothing if there is neither."""
        text = _GAMMA.sub(_LETTER, expand_exponents(text.translate(_SIGNS)) or text)
        values = self._library.parse(f"${text}$", reading or self._units_kept, parsing_timeout=None)
        return [self._complex(value) for value in values]


def _is_interval(listed: list[Member]) -> bool | None:
    r"""True for inequalities and `x \in (1,2)`, False for a list of values, None where it cannot be said."""
    if all(member.sides.kind == "inequality" or _IN.search(member.text) for member in listed):
        return True
    return False if len(listed) > 1 and not any(member.entries for member in listed) else None


def _symbols(listed: list[Member]) -> frozenset[str]:
    return frozenset[str]().union(*(symbols(member.text) for member in listed))


def _reply(gold: list[Any], equal: bool, rule: str | None, answer: list[Any]) -> Message:
    texts = (value.replace("\\omicron", "\\gamma") for value in answer if isinstance(value, str))
    return {
        "gold_read": bool(gold),
        "gold_value": any(not isinstance(value, str) for value in gold),
        "equal": equal,
        "rule": None if equal else rule,
        "extracted": next(texts, None),
    }


def _raise_time_up(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError
