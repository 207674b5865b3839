"""Compares two mathematical answers inside a worker process."""

import logging
import re
import signal
import types
from itertools import product
from typing import Any, Final

from dphrl.scoring.workers.messages import Message, verdict_reply

# Letters for a reader, functions or Euler's constant for the library; it knows omicron, which nobody writes.
_GAMMA: Final = re.compile(r"\\gamma(?![A-Za-z])|\\Gamma(?![A-Za-z]|\s*(?:\\left\s*)?\()")


class _TimeUpError(BaseException):
    """The time is up; a BaseException because the libraries below catch Exception."""


class MathHandler:
    """Compares two answers by math-verify.

    Task: gold (LaTeX), answer (LaTeX; if `prose`, a text that contains it), pairs (null, or the members of each to be
    matched one to one, LaTeX), tolerance (null or float, absolute). Reply: gold_read (parsed at all), gold_value
    (parsed as more than text), equal, extracted (str|null); or as `verdict_reply`.
    """

    def __init__(self, options: Message) -> None:
        import math_verify
        from sympy.core.cache import clear_cache

        from dphrl.scoring.math.guards import equal, guard, one_to_one

        logging.disable(logging.CRITICAL)
        guard()
        self._equal, self._one_to_one = equal, one_to_one
        self._library = math_verify
        # Plain expressions for prose only: in LaTeX that it cannot parse, the library picks any number (2 of 2^^3).
        self._latex = [math_verify.LatexExtractionConfig()]
        self._prose = [*self._latex, math_verify.ExprExtractionConfig()]
        self._clear_cache = clear_cache
        self._timeout_s: float = options["timeout_s"]
        # The first use compiles patterns, builds the grammar, imports what simplifies; no answer should pay for that.
        self._same(self._parse("\\frac{1}{2}"), self._parse("it is 1/2", prose=True), None)
        self._same(self._parse("x+\\sqrt{2}"), self._parse("2\\pi x"), None)
        signal.signal(signal.SIGALRM, _raise_time_up)

    def run(self, task: Message) -> Message:
        gold: list[Any] | None = None
        try:
            # The library's own time limits are whole seconds, twice per comparison: this one replaces them.
            signal.setitimer(signal.ITIMER_REAL, self._timeout_s)
            try:
                gold = self._parse(task["gold"])
                return self._compare(gold, task)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except _TimeUpError:
            self._clear_cache()
            verdict, what = ("gold_error", "gold not read") if gold is None else ("timeout", "not compared")
            return verdict_reply(verdict, detail=f"{what} after {self._timeout_s:g} s", retry=True)
        except MemoryError:
            self._clear_cache()
            return verdict_reply("out_of_memory", detail="the comparison needs more memory than it may use")
        except RecursionError:
            return verdict_reply("wrong", detail="nested too deeply to be compared")

    def _compare(self, gold: list[Any], task: Message) -> Message:
        answer = self._parse(task["answer"], task["prose"])
        pairs, tolerance = task["pairs"], task["tolerance"]
        texts = (value.replace("\\omicron", "\\gamma") for value in answer if isinstance(value, str))
        return {
            "gold_read": bool(gold),
            "gold_value": any(not isinstance(value, str) for value in gold),
            "equal": self._same(gold, answer, tolerance) or bool(pairs and self._match(pairs[0], pairs[1], tolerance)),
            "extracted": next(texts, None),
        }

    def _match(self, golds: list[str], answers: list[str], tolerance: float | None) -> bool:
        parsed = [self._parse(gold) for gold in golds], [self._parse(answer) for answer in answers]
        return self._one_to_one(*parsed, lambda gold, answer: self._same(gold, answer, tolerance))

    def _same(self, gold: list[Any], answer: list[Any], tolerance: float | None) -> bool:
        if any(self._equal(one, other) for one, other in product(gold, answer)):
            return True
        if tolerance is None or not gold or not answer:
            return False
        try:
            return bool(abs((gold[0] - answer[0]).evalf()) <= tolerance)
        except (MemoryError, RecursionError):
            raise
        except Exception:
            # As in math-verify: what cannot be compared is not equal. A pole is a ZeroDivisionError, text a TypeError.
            return False

    def _parse(self, text: str, prose: bool = False) -> list[Any]:
        """The value and the text that the library finds; only the text if it has no value, nothing if there is none."""
        text = _GAMMA.sub(r"\\omicron", text)
        text, kinds = (text, self._prose) if prose else (f"${text}$", self._latex)
        return list(self._library.parse(text, kinds, parsing_timeout=None))


def _raise_time_up(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError
