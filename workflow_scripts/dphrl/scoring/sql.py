"""The SQL scorer: responses in, verdicts out."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Final, Literal, Self

from dphrl.scoring.extract import extract_sql
from dphrl.scoring.pool import Message, Pool
from dphrl.scoring.verdict import InfrastructureError, Verdict

Comparison = Literal["spider", "bird", "strict"]
Answer = Literal["fenced", "bare"]
Partial = Literal["none", "columns", "one_to_one"]

COMPARISONS: Final = ("spider", "bird", "strict")
_LARGEST_BATCH: Final = 64


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
        partial: reward of an answer that runs and is wrong, see `dphrl.config.scoring`.
        max_steps: SQLite virtual machine steps a query may take; the first limit, the same on every machine.
        max_bytes: bytes a result may have.
        memory_mib: address space of a worker.
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
        memory_mib: int = 2048,
    ) -> None:
        _one_of("comparison", comparison, COMPARISONS)
        _one_of("answer", answer, ("fenced", "bare"))
        _one_of("partial", partial, ("columns", "one_to_one", "none"))
        self._databases = Path(databases).absolute()
        self._comparison: str = comparison
        self._answer: str = answer
        limits = {"max_steps": max_steps, "timeout_s": timeout_s, "max_rows": max_rows, "max_bytes": max_bytes}
        options = {"partial": partial, "limits": limits}
        # The gold and the answer may each take timeout_s; the rest is for their comparison.
        self.pool = Pool("sql", options, workers, deadline_s=3 * timeout_s + 1, memory_mib=memory_mib)
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

    def _score(self, queries: list[str | None], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        if len(queries) != len(ground_truths):
            raise ValueError(f"{len(queries)} answers but {len(ground_truths)} ground truths: expected as many")
        tasks: dict[tuple[str, str, str, str], Message] = {}
        keys = []
        for index, (sql, truth) in enumerate(zip(queries, ground_truths, strict=True)):
            database, gold, comparison = self._ground_truth(index, truth)
            key = (database, gold, comparison, sql or "")
            keys.append(key)
            if sql is not None and key not in tasks:
                task = {"database": database, "gold": gold, "comparison": comparison, "sql": sql}
                tasks[key] = {"id": len(tasks), **task}
        replies = self.pool.run(_batches(list(tasks.values()), len(self.pool)))
        return [
            _verdict(sql, replies[tasks[key]["id"]]) if sql is not None else Verdict("no_answer", False, 0.0)
            for sql, key in zip(queries, keys, strict=True)
        ]

    def _ground_truth(self, index: int, truth: Mapping[str, Any]) -> tuple[str, str, str]:
        db_id, gold = truth.get("db_id"), truth.get("gold_sql")
        comparison = truth.get("comparison") or self._comparison
        if not isinstance(db_id, str) or not isinstance(gold, str):
            raise ValueError(f"ground truth {index}: expected strings under db_id and gold_sql, found {dict(truth)!r}")
        _one_of(f"ground truth {index}: comparison", comparison, COMPARISONS)
        return self._database(db_id), gold, comparison

    def _database(self, db_id: str) -> str:
        """The path of a database; the DPH-RL release writes `name/name.sqlite` for `name`."""
        path = self._paths.get(db_id)
        if path is None:
            relative = PurePosixPath(db_id if db_id.endswith(".sqlite") else f"{db_id}/{db_id}.sqlite")
            if relative.is_absolute() or ".." in relative.parts:
                raise ValueError(f"db_id {db_id!r}: expected a name inside {self._databases}")
            file = self._databases / relative
            if not file.is_file():
                raise InfrastructureError(
                    f"database {db_id!r}: {file} is missing. Is scoring.sql.databases the folder that holds "
                    "<db_id>/<db_id>.sqlite?"
                )
            path = self._paths[db_id] = str(file)
        return path


def _batches(tasks: list[Message], workers: int) -> Iterator[list[Message]]:
    """Tasks grouped by database and gold, so that a worker opens one and executes the other once, for even loads."""
    groups: dict[tuple[str, str], list[Message]] = {}
    for task in tasks:
        groups.setdefault((task["database"], task["gold"]), []).append(task)
    size = max(1, min(_LARGEST_BATCH, len(tasks) // (4 * workers)))
    batch: list[Message] = []
    for key in sorted(groups, key=lambda key: (key[0], groups[key][0]["id"])):
        if batch and (len(batch) >= size or batch[0]["database"] != key[0]):
            yield batch
            batch = []
        batch += groups[key]
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
