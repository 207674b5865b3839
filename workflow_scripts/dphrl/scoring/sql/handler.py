"""Judges one SQL answer inside a worker process; keeps the results of gold queries."""

import signal
from collections import OrderedDict
from contextlib import suppress
from typing import Final

from dphrl.scoring.sql.compare import BudgetExceededError, answer_class, equal, gold_orders, partial_credit
from dphrl.scoring.sql.program import nondeterministic, program_class, tie_breaks
from dphrl.scoring.sql.sandbox import DatabaseFaultError, Execution, Limits, Sandbox
from dphrl.scoring.workers.messages import Message, verdict_reply

_GOLD_CACHE_BYTES: Final = 32 * 2**20
_GOLD_CACHE_ENTRIES: Final = 4096
_GRACE_S: Final = 0.5
# A gold's execution, with its answer class for each comparison that was used.
_Gold = tuple[Execution, dict[str, str]]


class SqlHandler:
    """Executes an answer and its gold, and compares them; or examines a gold.

    Each of the parts (gold, answer, comparison) may take timeout_s and half a second; then the kernel's alarm kills the
    process.

    Task: database (path), gold, comparison, and sql; without sql, the gold is examined.
    Reply: as `verdict_reply`, with program_class, and reads_table if the answer ran; of an examined gold, with reason.
    """

    def __init__(self, options: Message) -> None:
        self._partial: str = options["partial"]
        self._programs: bool = options["programs"]
        limits = Limits(**options["limits"])
        self._sandbox = Sandbox(limits)
        self._seconds = limits.timeout_s + _GRACE_S
        self._golds: OrderedDict[tuple[str, str], _Gold] = OrderedDict()
        self._gold_bytes = 0
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if self._programs:
            # Loads sqlglot: too little memory for it must not be blamed on an answer.
            program_class("SELECT 1")

    def run(self, task: Message) -> Message:
        try:
            reply = self._reply(task)
            if self._programs and "sql" in task and not reply["retry"]:
                with suppress(MemoryError):
                    reply["program_class"] = program_class(task["sql"])
            return reply
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _reply(self, task: Message) -> Message:
        question = task["database"], task["gold"], task["comparison"]
        try:
            return self._judge(*question, task["sql"]) if "sql" in task else self._examine(*question)
        except MemoryError:
            return verdict_reply("out_of_memory", detail="comparing the results needs more memory than it may use")
        except BudgetExceededError as error:
            return verdict_reply("timeout", detail=str(error))
        except DatabaseFaultError as fault:
            return verdict_reply("infrastructure_error", detail=str(fault))

    def _judge(self, database: str, gold_sql: str, comparison: str, sql: str) -> Message:
        gold, classes = self._gold(database, gold_sql)
        if gold.outcome != "ok":
            return _gold_error("gold", gold)
        answer = gold if sql == gold_sql else self._execute(database, sql)
        if answer.outcome != "ok":
            return verdict_reply(answer.outcome, detail=answer.detail, retry=answer.by_clock)
        self._set_alarm()
        ordered = gold_orders(gold_sql, comparison)
        if answer.rows == gold.rows or equal(gold.rows, answer.rows, comparison, ordered):
            # Equal results have equal classes.
            if comparison not in classes:
                classes[comparison] = answer_class(gold.rows, comparison, ordered)
            reply = verdict_reply("correct", reward=1.0, answer_class=classes[comparison])
            return {**reply, "reads_table": answer.reads_table}
        credit = 0.0
        if self._partial != "none":
            credit = partial_credit(gold.rows, answer.rows, one_to_one=self._partial == "one_to_one")
        reply = verdict_reply("wrong", reward=credit, answer_class=answer_class(answer.rows, comparison, ordered))
        return {**reply, "reads_table": answer.reads_table}

    def _examine(self, database: str, sql: str, comparison: str) -> Message:
        """The gold scored as an answer, with the reason not to use it, or None."""
        reply = self._judge(database, sql, comparison, sql)
        if reply["verdict"] != "correct":
            return reply
        if nondeterministic(sql):
            return {**reply, "reason": "nondeterministic"}
        gold, _ = self._gold(database, sql)
        reversed_ = self._execute(database, sql, reverse=True)
        if reversed_.outcome != "ok":
            return _gold_error("in reverse", reversed_)
        # SQLite does not reverse a SELECT with ORDER BY: its ties are broken in two ways instead.
        width = len(gold.rows[0]) if gold.rows else 0
        broken = [self._execute(database, variant) for variant in tie_breaks(sql, width)]
        pairs = [(gold, reversed_)]
        if broken and all(execution.outcome == "ok" for execution in broken):
            pairs.append((broken[0], broken[1]))
        self._set_alarm()
        ordered = gold_orders(sql, comparison)
        if not all(equal(one.rows, other.rows, comparison, ordered) for one, other in pairs):
            return {**reply, "reason": "order-ambiguous"}
        return {**reply, "reason": None if gold.rows else "empty"}

    def _execute(self, database: str, sql: str, reverse: bool = False) -> Execution:
        self._set_alarm()
        return self._sandbox.execute(database, sql, reverse)

    def _gold(self, database: str, sql: str) -> _Gold:
        key = (database, sql)
        gold = self._golds.pop(key, None)
        if gold is None:
            gold = self._execute(database, sql), {}
            if gold[0].by_clock:
                return gold
            self._gold_bytes += gold[0].size
        self._golds[key] = gold
        most = _GOLD_CACHE_ENTRIES
        while len(self._golds) > 1 and (self._gold_bytes > _GOLD_CACHE_BYTES or len(self._golds) > most):
            self._gold_bytes -= self._golds.popitem(last=False)[1][0].size
        return gold

    def _set_alarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)


def _gold_error(which: str, gold: Execution) -> Message:
    detail = gold.detail if gold.by_clock else f"{gold.outcome}: {gold.detail}"
    return verdict_reply("gold_error", detail=f"{which}: {detail}", retry=gold.by_clock)
