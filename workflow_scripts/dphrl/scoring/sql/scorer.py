"""The SQL scorer: responses in, verdicts out."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from dphrl.config.scorers import Comparison, Partial, SqlAnswer, SqlDefaults, SqlRepair
from dphrl.data.databases import PendingChangesError, database_path
from dphrl.scoring.sql.program import extract_sql
from dphrl.scoring.sql.sandbox import MAX_LENGTH
from dphrl.scoring.verdict import InfrastructureError, Verdict, check_option
from dphrl.scoring.workers.messages import Message
from dphrl.scoring.workers.pool import Pool, PooledScorer

# A million tokens, say. Extraction takes time and memory in this process, which is without limits.
MAX_RESPONSE: Final = 4_000_000


class SqlScorer(PooledScorer):
    """Judges SQL by executing it, in worker processes under limits.

    Args:
        databases: folder of `<db_id>/<db_id>.sqlite`.
        comparison: `spider` (rows as a multiset, any column order, row order iff the gold says ORDER BY anywhere),
            `bird` (rows as a set) or `strict` (rows in column order, row order iff the gold's outermost query orders).
        timeout_s: seconds a query may run; the second limit.
        max_rows: rows a result may have.
        workers: number of processes, started on first use.
        answer: `fenced` (the last ```sql block) or `bare` (the response is the SQL).
        partial: reward of an answer that runs and is wrong, see `dphrl.config.blocks.data`.
        repair: whether operators written `> =` are repaired in answers and golds: `always`, `never`, or `auto`: unless
            the comparison is `bird`.
        max_steps: SQLite virtual machine steps a query may take; the first limit, the same on every machine.
        max_bytes: bytes a result may have.
        memory_mib: address space of a worker.
        programs: whether verdicts get a `program_class`, which costs more than the rest of the scoring.
    """

    def __init__(
        self,
        databases: str | Path,
        comparison: Comparison = SqlDefaults.comparison,
        timeout_s: float = SqlDefaults.timeout_s,
        max_rows: int = SqlDefaults.max_rows,
        workers: int = 1,
        answer: SqlAnswer = SqlDefaults.answer,
        partial: Partial = SqlDefaults.partial,
        repair: SqlRepair = SqlDefaults.repair,
        max_steps: int = SqlDefaults.max_steps,
        max_bytes: int = SqlDefaults.max_bytes,
        memory_mib: int = SqlDefaults.memory_mib,
        programs: bool = True,
    ) -> None:
        check_option("comparison", comparison, get_args(Comparison))
        check_option("answer", answer, get_args(SqlAnswer))
        check_option("partial", partial, get_args(Partial))
        check_option("repair", repair, get_args(SqlRepair))
        limits = {"max_steps": max_steps, "timeout_s": timeout_s, "max_rows": max_rows, "max_bytes": max_bytes}
        options = {"partial": partial, "limits": limits, "programs": programs}
        # The gold, the answer, their comparison, the class; the worker's own alarm comes first unless it is frozen.
        super().__init__(Pool("sql", options, workers, deadline_s=3 * timeout_s + 3, memory_mib=memory_mib))
        self._databases = Path(databases).absolute()
        self._comparison = comparison
        self._answer: SqlAnswer = answer
        self._repair: SqlRepair = repair

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Verdicts in the order of the responses.

        Args:
            responses: model outputs.
            ground_truths: `{"db_id", "gold_sql", "comparison"?}` each.

        Raises:
            ValueError: the lengths differ, or a ground truth lacks a field.
            InfrastructureError: a database is missing or broken, or workers fail by no fault of an answer.
        """
        return self._score(responses, ground_truths, self._judge)

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Each gold's verdict (`correct` or `gold_error`) and the reason not to use it, or None.

        Reasons, the first that holds: `unrunnable`; `order-ambiguous`, its result is another under its own comparison
        when SQLite visits rows in reverse (LIMIT without ORDER BY, the last bits of a sum), or by the rewrites of
        `row_order` (ties, bare columns of GROUP BY); `empty`.

        Raises as `score`.
        """
        golds = [self._query(index, None, truth) for index, truth in enumerate(ground_truths)]
        replies = self._replies(golds)
        return [
            ("correct", reply["reason"]) if reply["verdict"] == "correct" else ("gold_error", "unrunnable")
            for reply in (replies[gold] for gold in golds)
        ]

    def _judge(self, index: int, response: str, truth: Mapping[str, Any]) -> "Verdict | _Query":
        if len(response) > MAX_RESPONSE:
            detail = f"the response has {len(response)} characters, limit {MAX_RESPONSE}"
            return Verdict("too_large", False, 0.0, detail=detail)
        sql = extract_sql(response, self._answer)
        query = self._query(index, sql, truth)
        if sql is None:
            return Verdict("no_answer", False, 0.0)
        if len(sql) > MAX_LENGTH:
            detail = f"the query has {len(sql)} characters, limit {MAX_LENGTH}"
            return Verdict("too_large", False, 0.0, sql[:MAX_LENGTH], detail=detail)
        return query

    def _query(self, index: int, sql: str | None, truth: Mapping[str, Any]) -> "_Query":
        db_id, gold = truth.get("db_id"), truth.get("gold_sql")
        comparison = truth.get("comparison") or self._comparison
        if not isinstance(db_id, str) or not isinstance(gold, str):
            raise ValueError(f"ground truth {index}: expected strings under db_id and gold_sql, found {dict(truth)!r}")
        check_option(f"ground truth {index}: comparison", comparison, get_args(Comparison))
        # The published evaluator of BIRD executes queries unchanged.
        repair = self._repair == "always" or (self._repair == "auto" and comparison != "bird")
        return _Query(_database(self._databases, db_id), gold, comparison, repair, sql)

    def _batches(self, tasks: list[Message]) -> Iterable[Sequence[Message]]:
        # A worker then opens a database once and keeps the result of a gold for its answers.
        return super()._batches(sorted(tasks, key=itemgetter("database", "gold")))


class _Query(NamedTuple):
    """An answer to a question about a database (a path); without `sql`, the gold itself is examined."""

    database: str
    gold: str
    comparison: str
    repair: bool
    sql: str | None

    def message(self) -> Message:
        return {name: value for name, value in self._asdict().items() if value is not None}

    def verdict(self, reply: Message) -> Verdict:
        verdict = reply["verdict"]
        details = {name: reply.get(name) for name in ("answer_class", "program_class", "detail", "reads_table")}
        return Verdict(verdict, verdict == "correct", float(reply["reward"]), self.sql, **details)


@cache
def _database(folder: Path, db_id: str) -> str:
    try:
        return str(database_path(folder, db_id))
    except FileNotFoundError as error:
        raise InfrastructureError(
            f"{error}. Is datasets.<name>.databases the folder that holds <db_id>/<db_id>.sqlite?"
        ) from error
    except PendingChangesError as error:
        raise InfrastructureError(str(error)) from error
