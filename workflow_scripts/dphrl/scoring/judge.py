"""What a worker does with one task; each handler is made in the worker and keeps its caches there."""

import signal
import types
from collections import OrderedDict
from typing import Any, Final, Protocol

from dphrl.scoring.compare import BudgetExceededError, answer_class, equal, gold_orders, partial_credit
from dphrl.scoring.program import program_class
from dphrl.scoring.sandbox import DatabaseFaultError, Execution, Limits, Sandbox

_GOLD_CACHE_BYTES: Final = 128 * 2**20
_GOLD_CACHE_ENTRIES: Final = 4096

Message = dict[str, Any]


class Handler(Protocol):
    """Answers tasks. A reply has `status`: `done`, `wall` (out of time) or `fault` (not the answer's)."""

    def run(self, task: Message) -> Message:
        """The reply to one task, without its id."""


class SqlHandler:
    """Executes an answer and its gold, and compares them.

    Task: database (path), gold, sql, comparison. Reply: verdict, reward, answer_class, program_class, detail.
    """

    def __init__(self, options: Message) -> None:
        self._partial: str = options["partial"]
        self._sandbox = Sandbox(Limits(**options["limits"]))
        self._golds: OrderedDict[tuple[str, str], Execution] = OrderedDict()
        self._gold_bytes = 0

    def run(self, task: Message) -> Message:
        try:
            reply = self._judge(task["database"], task["gold"], task["sql"], task["comparison"])
        except MemoryError:
            reply = _done("out_of_memory", detail="comparing the results needs more memory than it may use")
        except DatabaseFaultError as fault:
            return {"status": "fault", "detail": str(fault)}
        if reply["status"] == "done":
            reply["program_class"] = program_class(task["sql"])
        return reply

    def _judge(self, database: str, gold_sql: str, sql: str, comparison: str) -> Message:
        gold = self._gold(database, gold_sql)
        if gold.status == "wall":
            return {"status": "wall", "verdict": "gold_error", "detail": f"gold: {gold.detail}"}
        if gold.status != "ok":
            return _done("gold_error", detail=f"gold: {gold.status}: {gold.detail}")
        answer = gold if sql == gold_sql else self._sandbox.execute(database, sql)
        if answer.status == "wall":
            return {"status": "wall", "verdict": "timeout", "detail": answer.detail}
        if answer.status != "ok":
            return _done(answer.status, detail=answer.detail)
        ordered = gold_orders(gold_sql, comparison)
        try:
            correct = equal(gold.rows, answer.rows, comparison, ordered)
        except BudgetExceededError as error:
            return _done("timeout", detail=str(error))
        reward = 1.0 if correct else self._partial_credit(gold, answer)
        klass = answer_class(answer.rows, comparison, ordered)
        return _done("correct" if correct else "wrong", reward=reward, answer_class=klass)

    def _partial_credit(self, gold: Execution, answer: Execution) -> float:
        if self._partial == "none":
            return 0.0
        return partial_credit(gold.rows, answer.rows, one_to_one=self._partial == "one_to_one")

    def _gold(self, database: str, sql: str) -> Execution:
        key = (database, sql)
        gold = self._golds.get(key)
        if gold is None:
            gold = self._sandbox.execute(database, sql)
            if gold.status == "wall":
                return gold
            self._golds[key] = gold
            self._gold_bytes += gold.size
            while len(self._golds) > 1 and (
                self._gold_bytes > _GOLD_CACHE_BYTES or len(self._golds) > _GOLD_CACHE_ENTRIES
            ):
                self._gold_bytes -= self._golds.popitem(last=False)[1].size
        self._golds.move_to_end(key)
        return gold


class _TimeUpError(BaseException):
    """The alarm rang; a BaseException because the libraries under it catch Exception."""


class MathHandler:
    """Compares two LaTeX answers by math-verify.

    Task: gold, answer (null: only whether the gold parses is asked). Reply: gold_parsed, equal; or verdict, detail.
    """

    def __init__(self, options: Message) -> None:
        import logging

        import math_verify

        logging.disable(logging.CRITICAL)
        self._library = math_verify
        self._timeout_s: float = options["timeout_s"]
        signal.signal(signal.SIGALRM, _ring)

    def run(self, task: Message) -> Message:
        try:
            # The library's own time limits are whole seconds, twice per comparison: this one replaces them.
            signal.setitimer(signal.ITIMER_REAL, self._timeout_s)
            try:
                return self._compare(task["gold"], task["answer"])
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except _TimeUpError:
            return {"status": "wall", "verdict": "timeout", "detail": f"not compared after {self._timeout_s:g} s"}
        except MemoryError:
            return _done("out_of_memory", detail="the comparison needs more memory than it may use")
        except RecursionError:
            return _done("wrong", detail="nested too deeply to be compared")

    def _compare(self, gold: str, answer: str | None) -> Message:
        gold_value = self._parse(gold)
        if not gold_value:
            return {"status": "done", "gold_parsed": False, "equal": False}
        if answer is None:
            return {"status": "done", "gold_parsed": True, "equal": True}
        same = bool(self._library.verify(gold_value, self._parse(answer), timeout_seconds=None))
        return {"status": "done", "gold_parsed": True, "equal": same}

    def _parse(self, text: str) -> list[Any]:
        return list(self._library.parse(f"${text}$", parsing_timeout=None))


def _ring(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError


def _done(verdict: str, *, reward: float = 0.0, answer_class: str | None = None, detail: str | None = None) -> Message:
    return {"status": "done", "verdict": verdict, "reward": reward, "answer_class": answer_class, "detail": detail}
