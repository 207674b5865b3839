"""The SQL scorer: responses in, verdicts out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from dphrl.scoring.extract import extract_sql
from dphrl.scoring.sql.sandbox import MAX_LENGTH
from dphrl.scoring.verdict import InfrastructureError, Verdict
from dphrl.scoring.workers.pool import Message, Pool

Comparison = Literal["spider", "bird", "strict"]
Answer = Literal["fenced", "bare"]
Partial = Literal["none", "columns", "one_to_one"]

COMPARISONS: Final = ("spider", "bird", "strict")
_BATCH: Final = 64
_LARGEST_BATCH: Final = 128

_Truth = tuple[str, str, str]


class SqlScorer:
    """Judges SQL by executing it, in worker processes that hold it within limits.

    Args:
        databases: folder holding `<db_id>/<db_id>.sqlite`.
        comparison: `spider` (rows as a multiset, any column order, row order iff the gold says ORDER BY anywhere),
            `bird` (rows as a set) or `strict` (rows in column order, row order iff the gold's outermost query orders).
        timeout_s: seconds a query may run; the second limit.
        max_rows: rows a result may have.
        workers: number of processes, started on first use.
        answer: `fenced` (the last ```sql block) or `bare` (the response is the SQL).
        partial: reward of an answer that runs and is wrong, see `dphrl.config.blocks.scoring`.
        max_steps: SQLite virtual machine steps a query may take; the first limit, the same on every machine.
        max_bytes: bytes a result may have.
        memory_mib: address space of a worker.
        programs: whether verdicts get a `program_class`, which costs more than the rest of the scoring.
    """

    def __init__(
        self,
        databases: str | Path,
        comparison: Comparison = "spider",
        timeout_s: float = 30.0,
        max_rows: int = 200_000,
        workers: int = 1,
        answer: Answer = "fenced",
        partial: Partial = "none",
        max_steps: int = 500_000_000,
        max_bytes: int = 64 * 2**20,
        memory_mib: int = 1024,
        programs: bool = True,
    ) -> None:
        _one_of("comparison", comparison, COMPARISONS)
        _one_of("answer", answer, ("fenced", "bare"))
        _one_of("partial", partial, ("columns", "one_to_one", "none"))
        self._databases = Path(databases).absolute()
        self._comparison: str = comparison
        self._answer: str = answer
        limits = {"max_steps": max_steps, "timeout_s": timeout_s, "max_rows": max_rows, "max_bytes": max_bytes}
        options = {"partial": partial, "limits": limits, "programs": programs}
        # The gold, the answer and their comparison; the worker's own alarm comes first unless it is frozen.
        self.pool = Pool("sql", options, workers, deadline_s=3 * timeout_s + 2, memory_mib=memory_mib)
        self._paths: dict[str, str] = {}

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
        """Verdicts in the order of the responses.

        Args:
            responses: what the model wrote.
            ground_truths: `{"db_id", "gold_sql", "comparison"?}` each.

        Raises:
            ValueError: the lengths differ, or a ground truth lacks a field.
            InfrastructureError: a database is missing or broken, or workers fail by no fault of an answer.
        """
        return self._score([extract_sql(response, self._answer) for response in responses], ground_truths)

    def score_sql(self, queries: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Like `score`, for bare SQL whatever `answer` says."""
        return self._score([extract_sql(query, "bare") for query in queries], ground_truths)

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Each gold's verdict (`correct` or `gold_error`) and why it should not be used, or None.

        Reasons, the first that holds: `unrunnable`; `nondeterministic`, it reads the clock or chance;
        `order-ambiguous`, its result is another under its own comparison when SQLite visits rows in reverse (LIMIT
        without ORDER BY, GROUP BY with bare columns, the last bits of a sum) or when rows that tie in an ORDER BY
        change places; `empty`.

        Raises:
            ValueError, InfrastructureError: as `score`.
        """
        keys = [self._ground_truth(index, truth) for index, truth in enumerate(ground_truths)]
        tasks = {key: _task(index, *key) for index, key in enumerate(dict.fromkeys(keys))}
        replies = self._run(tasks.values())
        audited: dict[_Truth, tuple[str, str | None]] = {}
        for key, task in tasks.items():
            reply = replies[task["id"]]
            runs = reply["verdict"] == "correct"
            audited[key] = ("correct", reply["reason"]) if runs else ("gold_error", "unrunnable")
        return [audited[key] for key in keys]

    def _score(self, queries: list[str | None], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        if len(queries) != len(ground_truths):
            raise ValueError(f"{len(queries)} answers but {len(ground_truths)} ground truths: expected as many")
        tasks: dict[tuple[_Truth, str], Message] = {}
        verdicts: list[Verdict | tuple[_Truth, str]] = []
        for index, (sql, ground_truth) in enumerate(zip(queries, ground_truths, strict=True)):
            truth = self._ground_truth(index, ground_truth)
            if sql is None:
                verdicts.append(Verdict("no_answer", False, 0.0))
            elif len(sql) > MAX_LENGTH:
                detail = f"the query has {len(sql)} characters, limit {MAX_LENGTH}"
                verdicts.append(Verdict("too_large", False, 0.0, sql[:MAX_LENGTH], detail=detail))
            else:
                verdicts.append((truth, sql))
                tasks.setdefault((truth, sql), {**_task(len(tasks), *truth), "sql": sql})
        replies = self._run(tasks.values())
        return [
            found if isinstance(found, Verdict) else _verdict(found[1], replies[tasks[found]["id"]])
            for found in verdicts
        ]

    def _run(self, tasks: Iterable[Message]) -> dict[int, Message]:
        return self.pool.run(_batches(list(tasks), len(self.pool)))

    def _ground_truth(self, index: int, truth: Mapping[str, Any]) -> _Truth:
        """Database (path), gold and comparison of a ground truth."""
        db_id, gold = truth.get("db_id"), truth.get("gold_sql")
        comparison = truth.get("comparison") or self._comparison
        if not isinstance(db_id, str) or not isinstance(gold, str):
            raise ValueError(f"ground truth {index}: expected strings under db_id and gold_sql, found {dict(truth)!r}")
        _one_of(f"ground truth {index}: comparison", comparison, COMPARISONS)
        return self._database(db_id), gold, comparison

    def _database(self, db_id: str) -> str:
        path = self._paths.get(db_id)
        if path is None:
            # Imported here: the workers import this package too, and they need no polars.
            from dphrl.tasks.databases import database_path

            try:
                path = self._paths[db_id] = str(database_path(self._databases, db_id))
            except FileNotFoundError as error:
                raise InfrastructureError(
                    f"{error}. Is datasets.<name>.databases the folder that holds <db_id>/<db_id>.sqlite?"
                ) from error
        return path


def _task(number: int, database: str, gold: str, comparison: str) -> Message:
    return {"id": number, "database": database, "gold": gold, "comparison": comparison}


def _batches(tasks: list[Message], workers: int) -> Iterator[list[Message]]:
    """Tasks in the order of database and gold, so that a worker opens one and executes the other once."""
    first: dict[tuple[str, str], int] = {}
    for task in tasks:
        first.setdefault((task["database"], task["gold"]), task["id"])
    size = max(1, min(_BATCH, len(tasks) // (4 * workers)))
    batch: list[Message] = []
    for task in sorted(tasks, key=lambda task: (task["database"], first[task["database"], task["gold"]], task["id"])):
        if batch and (
            len(batch) >= _LARGEST_BATCH
            or batch[-1]["database"] != task["database"]
            or (len(batch) >= size and batch[-1]["gold"] != task["gold"])
        ):
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch


def _verdict(sql: str, reply: Message) -> Verdict:
    verdict = reply["verdict"]
    return Verdict(
        verdict=verdict,
        correct=verdict == "correct",
        reward=float(reply.get("reward", 0.0)),
        extracted=sql,
        answer_class=reply.get("answer_class"),
        program_class=reply.get("program_class"),
        detail=reply.get("detail"),
    )


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: expected one of {', '.join(allowed)}")
