"""Judges one SQL answer inside a worker process; keeps the result of the last gold query."""

import signal
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple, ParamSpec, TypeVar

from dphrl.scoring.sql.compare import BudgetExceededError, answer_class, equal, gold_orders, partial_credit
from dphrl.scoring.sql.program import normalise_sql, program_class
from dphrl.scoring.sql.sandbox import DatabaseFaultError, Execution, Limits, Sandbox
from dphrl.scoring.workers.messages import Message, error_reply, verdict_reply

_GRACE_S: Final = 0.5
# Seconds for each reading of a syntax tree; the longest of 6,071 queries of people and models took 0.024 s.
_PROGRAM_S: Final = 0.5
_RAN: Final = frozenset({"correct", "wrong"})
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _Gold(NamedTuple):
    """A gold query that was executed under a comparison, and whether the order of its rows matters."""

    execution: Execution
    ordered: bool


class SqlHandler:
    """Executes an answer and its gold, and compares them; or examines a gold.

    Each of the parts (gold, answer, comparison) may take timeout_s and half a second; then the kernel's alarm kills the
    process. Each reading of a syntax tree may take half a second. The program class comes after the verdict and cannot
    change it.

    Task: database (path), gold, comparison, repair, and sql; without sql, the gold is examined. With `repair`, both
    queries are repaired before they are used.
    Reply: as `verdict_reply`, with program_class, and reads_table if the answer ran; of an examined gold, with reason.
    """

    def __init__(self, options: Message) -> None:
        self._partial: str = options["partial"]
        self._programs: bool = options["programs"]
        limits = Limits(**options["limits"])
        self._sandbox = Sandbox(limits)
        self._seconds = limits.timeout_s + _GRACE_S
        # The tasks of a batch come in the order of their golds.
        self._last: tuple[tuple[str, str, str], _Gold] | None = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if self._programs:
            # Loads sqlglot: too little memory for it must not be blamed on an answer.
            program_class("SELECT 1")

    def run(self, task: Message) -> Message:
        if task["repair"]:
            task = {**task, **{name: normalise_sql(task[name]) for name in ("gold", "sql") if name in task}}
        try:
            question = task["database"], task["gold"], task["comparison"]
            reply = self._judge(*question, task["sql"]) if "sql" in task else self._examine(*question)
        except BudgetExceededError as error:
            reply = verdict_reply("timeout", detail=str(error))
        except DatabaseFaultError as fault:
            reply = verdict_reply("infrastructure_error", detail=str(fault))
        except Exception as error:
            reply = error_reply(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._programs and "sql" in task and reply["verdict"] in _RAN:
            try:
                reply["program_class"] = within(_PROGRAM_S, program_class, task["sql"])
            except MemoryError:
                reply["renew"] = True
            except Exception:
                # No class is worth a verdict.
                reply["program_class"] = None
        return reply

    def _judge(self, database: str, gold_sql: str, comparison: str, sql: str) -> Message:
        gold, ordered = self._gold(database, gold_sql, comparison)
        if gold.outcome != "ok":
            return _gold_error("gold", gold)
        answer = gold if sql == gold_sql else self._execute(database, sql)
        if answer.outcome != "ok":
            return _failure(answer.outcome, answer.detail, answer)
        self._set_alarm()
        correct = answer.rows == gold.rows or equal(gold.rows, answer.rows, comparison, ordered)
        reward = float(correct)
        if not correct and self._partial != "none":
            reward = partial_credit(gold.rows, answer.rows, one_to_one=self._partial == "one_to_one")
        reply = verdict_reply("correct" if correct else "wrong", reward, answer_class(answer.rows, comparison, ordered))
        return {**reply, "reads_table": answer.reads_table}

    def _examine(self, database: str, sql: str, comparison: str) -> Message:
        """The gold scored as an answer, with the reason not to use it, or None."""
        from dphrl.scoring.sql.row_order import rewrites  # with sqlglot, which not every scorer needs

        reply = self._judge(database, sql, comparison, sql)
        if reply["verdict"] != "correct":
            return reply
        gold, ordered = self._gold(database, sql, comparison)
        reversed_ = self._execute(database, sql, reverse=True)
        if reversed_.outcome != "ok":
            return _gold_error("in reverse", reversed_)
        # SQLite does not reverse a SELECT with ORDER BY or GROUP BY: it is rewritten instead.
        width = len(gold.rows[0]) if gold.rows else 0
        pairs = [(gold, reversed_)]
        for group in within(_PROGRAM_S, rewrites, sql, width) or ():
            executions = [self._execute(database, query) for query in group]
            if all(execution.outcome == "ok" for execution in executions):
                pairs += pairwise(executions)
        self._set_alarm()
        if not all(equal(first.rows, second.rows, comparison, ordered) for first, second in pairs):
            return {**reply, "reason": "order-ambiguous"}
        return {**reply, "reason": None if gold.rows else "empty"}

    def _execute(self, database: str, sql: str, reverse: bool = False) -> Execution:
        self._set_alarm()
        return self._sandbox.execute(database, sql, reverse)

    def _gold(self, database: str, sql: str, comparison: str) -> _Gold:
        key = (database, sql, comparison)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # its rows need memory
        try:
            execution = self._execute(database, sql)
        except DatabaseFaultError:
            raise
        except Exception as error:
            # An error that nobody expects must not be blamed on the answer.
            reply = error_reply(error)
            execution = Execution(reply["verdict"], detail=reply["detail"])
        # A query that takes too long to parse is judged by its text.
        ordered = within(_PROGRAM_S, gold_orders, sql, comparison)
        gold = _Gold(execution, gold_orders(sql, "spider") if ordered is None else ordered)
        if not (execution.by_clock or execution.outcome == "out_of_memory"):
            self._last = key, gold
        return gold

    def _set_alarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)


def _gold_error(which: str, gold: Execution) -> Message:
    detail = gold.detail if gold.by_clock else f"{gold.outcome}: {gold.detail}"
    return _failure("gold_error", f"{which}: {detail}", gold)


def _failure(verdict: str, detail: str | None, execution: Execution) -> Message:
    """The reply that a query failed: after a lack of time or memory it is tried again, of memory in a new process."""
    no_memory = execution.outcome == "out_of_memory"
    return verdict_reply(verdict, detail=detail, retry=execution.by_clock or no_memory, renew=no_memory)


class _TimeUpError(BaseException):
    """The time is up; a BaseException because libraries catch Exception."""


def within(
    seconds: float, call: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result | None:
    """The result of the call, or None after that much more CPU time of this process, whatever the load.

    The call must run Python code, which a signal can interrupt, in the main thread. It replaces an alarm that was set.
    """
    end = time.process_time() + seconds

    def check(_signal: int, _frame: object) -> None:
        if time.process_time() >= end:
            raise _TimeUpError

    # The clock of the alarm is the wall's: one of CPU time costs more than most calls do.
    previous = signal.signal(signal.SIGALRM, check)
    try:
        try:
            # Again after a while: not enough CPU time may have been used, or a destructor dropped the exception.
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)
            return call(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeUpError:
        # The alarm may have come before the end of the `finally`.
        signal.setitimer(signal.ITIMER_REAL, 0)
        return None
    finally:
        signal.signal(signal.SIGALRM, previous)
