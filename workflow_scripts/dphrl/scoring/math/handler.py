"""Compares two mathematical answers inside a worker process."""

import logging
import signal
import types
from typing import Any

from dphrl.scoring.math.answers import clean
from dphrl.scoring.workers.messages import Message, verdict_reply


class _TimeUpError(BaseException):
    """The time is up; a BaseException because the libraries below catch Exception."""


class MathHandler:
    """Compares two answers by rules and by math-verify.

    Task: gold and answer (LaTeX; with `prose`, a text that contains it; published: as the library reads them),
    tolerance (null or float, absolute). Reply: gold_read (parsed at all), gold_value (parsed as more than text), equal,
    rule (the first that objects, or null); of prose extracted (its answer, or null); or as `verdict_reply`.
    """

    def __init__(self, options: Message) -> None:
        import math_verify
        from sympy.core.cache import clear_cache

        from dphrl.scoring.math import algebra
        from dphrl.scoring.math.judge import Judge

        logging.disable(logging.CRITICAL)
        self._library, self._algebra, self._judge = math_verify, algebra, Judge
        self._clear_cache = clear_cache
        self._timeout_s: float = options["timeout_s"]
        self._published: bool = options["published"]
        # The first use compiles patterns, builds the grammar, imports simplifiers; no answer should pay for that.
        algebra.parse_prose("it is 1/2")
        Judge("x+\\sqrt{2}", "2\\pi x", None).equal()
        signal.signal(signal.SIGALRM, _raise_time_up)

    def run(self, task: Message) -> Message:
        gold: list[Any] | None = None
        try:
            # The library's own time limits are whole seconds, twice per comparison: this one replaces them.
            signal.setitimer(signal.ITIMER_REAL, self._timeout_s)
            try:
                if self._published:
                    gold = self._library.parse(task["gold"], parsing_timeout=None)
                    answer = self._library.parse(task["answer"], parsing_timeout=None)
                    equal = self._library.verify(gold, answer, timeout_seconds=None)
                    return {"gold_read": bool(gold), "gold_value": True, "equal": equal, "rule": None}
                gold = list(self._algebra.parse(task["gold"]))
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

    def _compare(self, gold: list[Any], task: Message) -> Message:
        text, extracted, read = task["answer"], None, list[Any]()
        if task["prose"]:
            read = list(self._algebra.parse_prose(text))
            extracted = next((value.replace("\\omicron", "\\gamma") for value in read if isinstance(value, str)), None)
            text = clean(extracted or "")
        judge = self._judge(task["gold"], text, task["tolerance"])
        equal = judge.equal()
        if not equal and task["prose"] and judge.rule in ("count", "relation"):
            # In prose the library chooses which members and which side answer. All else is judged as in a box.
            equal = self._algebra.same(self._algebra.parse_prose(f"${task['gold']}$"), read, task["tolerance"])
        reply = {"gold_read": bool(gold), "gold_value": judge.has_value(), "equal": equal, "extracted": extracted}
        return reply | {"rule": None if equal else judge.rule}


def _raise_time_up(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError
