"""How fast SQL is scored, as ratios within one run: python dev/benchmarks/scoring.py --data ../shared/data

The answers are three Spider prediction files (3 x 608), comparison `spider`. `official` works like the published
evaluators: a connection and a thread for each query, the gold executed for each answer. `ceiling` is one process with
open connections that executes each gold once and isolates nothing. A first small call, not timed, starts the scorers'
workers; `programs` computes `program_class` too. Seconds are medians of the repeats, in which the ways take turns.
"""

import argparse
import json
import sqlite3
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.compare import Row, answer_class, equal, gold_orders

PREDICTIONS = ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5")

Rows = list[dict[str, Any]]


def official(rows: Rows, databases: Path) -> int:
    """The number of correct answers, computed like the published evaluators do."""
    correct = 0
    for row in rows:
        path = databases / row["db_id"] / f"{row['db_id']}.sqlite"
        gold, answer = in_thread(path, row["gold_sql"]), in_thread(path, row["pred_sql"])
        if gold is not None and answer is not None:
            correct += equal_in_some_order(gold, answer, "order by" in row["gold_sql"].lower())
    return correct


def in_thread(path: Path, sql: str, timeout_s: float = 30.0) -> list[Row] | None:
    """The rows of a query executed in a new thread, or None if it fails or takes too long."""
    results: list[list[Row]] = []

    def execute() -> None:
        connection = connect(path)
        try:
            results.append(connection.execute(sql).fetchall())
        except sqlite3.Error:
            pass
        finally:
            connection.close()

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return results[0] if results else None


def equal_in_some_order(gold: list[Row], answer: list[Row], ordered: bool) -> bool:
    """Whether some order of columns makes the tables equal; orders are tried if the rows hold the same values."""
    if len(gold) != len(answer) or (gold and len(gold[0]) != len(answer[0])):
        return False
    if not gold:
        return True
    first, other = ([tuple(sorted(row, key=lambda v: f"{v}{type(v)}")) for row in rows] for rows in (gold, answer))
    if first != other if ordered else set(first) != set(other):
        return False
    key: Callable[[Iterable[Row]], Any] = list if ordered else Counter
    wanted, columns = key(gold), list(zip(*answer, strict=True))
    return any(key(zip(*order, strict=True)) == wanted for order in permutations(columns))


def ceiling(rows: Rows, databases: Path) -> int:
    """The number of correct answers, computed without isolation and without repeated work."""
    connections: dict[str, sqlite3.Connection] = {}
    results: dict[tuple[str, str], list[Row] | None] = {}
    judged: dict[tuple[str, str, str], bool] = {}

    def execute(db_id: str, sql: str) -> list[Row] | None:
        if db_id not in connections:
            connections[db_id] = connect(databases / db_id / f"{db_id}.sqlite")
        try:
            return connections[db_id].execute(sql).fetchall()
        except sqlite3.Error:
            return None

    for row in sorted(rows, key=lambda row: (row["db_id"], row["dev_index"])):
        db_id, gold_sql, sql = row["db_id"], row["gold_sql"], row["pred_sql"]
        if (db_id, gold_sql) not in results:
            results[db_id, gold_sql] = execute(db_id, gold_sql)
        gold = results[db_id, gold_sql]
        if (db_id, gold_sql, sql) not in judged:
            answer = gold if sql == gold_sql else execute(db_id, sql)
            correct = False
            if gold is not None and answer is not None:
                ordered = gold_orders(gold_sql, "spider")
                correct = gold == answer or equal(gold, answer, "spider", ordered)
                if sql == gold_sql or not correct:
                    answer_class(answer, "spider", ordered)
            judged[db_id, gold_sql, sql] = correct
    return sum(judged[row["db_id"], row["gold_sql"], row["pred_sql"]] for row in rows)


def connect(path: Path) -> sqlite3.Connection:
    """Open a database read-only."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "ignore")
    return connection


def warm(databases: Path, rows: Rows, **options: Any) -> SqlScorer:
    """A scorer whose workers have started."""
    scorer = SqlScorer(databases, **options)
    names = sorted({row["db_id"] for row in rows})
    scorer.score_sql(["SELECT 1"] * len(names), [{"db_id": name, "gold_sql": "SELECT 1"} for name in names])
    assert len(scorer.pool.pids) == len(scorer.pool)
    return scorer


def measure(rows: Rows, databases: Path, repeats: int) -> dict[str, float]:
    """Median seconds of each way."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    counts = set()

    def timed(name: str, work: Callable[[], int]) -> None:
        start = time.perf_counter()
        counts.add(work())
        seconds[name].append(time.perf_counter() - start)

    for _ in range(repeats):
        timed("official", lambda: official(rows, databases))
        timed("ceiling", lambda: ceiling(rows, databases))
        for programs in (False, True):
            for workers in (1, 2):
                with warm(databases, rows, workers=workers, programs=programs) as scorer:
                    name = f"{workers} worker{'s' * (workers > 1)}{', programs' * programs}"
                    timed(name, lambda scorer=scorer: correct(scorer, rows))  # type: ignore[misc]
    print(f"{len(rows)} answers, correct by each way: {sorted(counts)}")
    return {name: statistics.median(values) for name, values in seconds.items()}


def correct(scorer: SqlScorer, rows: Rows) -> int:
    """The number of correct answers according to the scorer."""
    return sum(verdict.correct for verdict in scorer.score_sql([row["pred_sql"] for row in rows], rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text2sql/spider")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each way (default 3)")
    options = parser.parse_args(arguments)
    spider = options.data / "text2sql" / "spider"
    files = [spider / "predictions" / f"{name}.jsonl" for name in PREDICTIONS]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    databases = (spider / "database").absolute()

    medians = measure(rows, databases, options.repeats)
    print("| way | seconds | answers/s | times official | of the ceiling, per worker |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, seconds in medians.items():
        workers = 2 if name.startswith("2") else 1
        faster, share = medians["official"] / seconds, medians["ceiling"] / seconds / workers
        print(f"| {name} | {seconds:.2f} | {len(rows) / seconds:.0f} | {faster:.1f} | {share:.2f} |")


if __name__ == "__main__":
    main()
