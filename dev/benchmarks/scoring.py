"""How fast SQL and mathematics are scored, within one run: python dev/benchmarks/scoring.py --data shared/data

SQL: three Spider prediction files (3 x 608), comparison `spider`. `official` works like the published evaluators: a
connection and a thread for each query, the gold executed for each answer. `programs` computes `program_class` too.
A first small call, not timed, starts the workers. Seconds are medians of the repeats, in which the ways take turns.

Mathematics: graded answers to MATH and GSM8K problems on one core, after one answer to warm up. math-verify parses
every gold and every response and verifies them, as its documentation shows.
"""

import argparse
import json
import logging
import sqlite3
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import permutations
from pathlib import Path
from typing import Any

from math_verify import parse, verify

from dphrl.scoring import MathScorer, SqlScorer
from dphrl.scoring.sql.compare import Row

PREDICTIONS = ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5")

Rows = list[dict[str, Any]]
# A response and its gold.
Case = tuple[str, str]


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
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        connection.text_factory = lambda data: data.decode("utf-8", "ignore")
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


def warm(databases: Path, rows: Rows, programs: bool) -> SqlScorer:
    """A scorer whose two workers have started."""
    scorer = SqlScorer(databases, workers=2, answer="bare", programs=programs)
    names = sorted({row["db_id"] for row in rows})
    scorer.score(["SELECT 1"] * len(names), [{"db_id": name, "gold_sql": "SELECT 1"} for name in names])
    assert len(scorer.pool.pids) == len(scorer.pool)
    return scorer


def print_sql(data: Path, repeats: int) -> None:
    """Print the table of SQL."""
    spider = data / "text2sql" / "spider"
    files = [spider / "predictions" / f"{name}.jsonl" for name in PREDICTIONS]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    databases = (spider / "database").absolute()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    counts = set()

    def timed(name: str, work: Callable[[], int]) -> None:
        start = time.perf_counter()
        counts.add(work())
        seconds[name].append(time.perf_counter() - start)

    def correct(scorer: SqlScorer) -> int:
        return sum(verdict.correct for verdict in scorer.score([row["pred_sql"] for row in rows], rows))

    for _ in range(repeats):
        timed("official", lambda: official(rows, databases))
        for name, programs in (("2 workers", False), ("2 workers, programs", True)):
            with warm(databases, rows, programs) as scorer:
                timed(name, lambda scorer=scorer: correct(scorer))  # type: ignore[misc]
    print(f"{len(rows)} answers, correct by each way: {sorted(counts)}\n")
    print("| way | seconds | answers/s | times official |\n| --- | ---: | ---: | ---: |")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"| {name} | {median:.2f} | {len(rows) / median:.0f} | {medians['official'] / median:.1f} |")


def qwen(folder: Path) -> list[Case]:
    """Responses and golds of 57 MATH problems, 8 answers each."""
    rows = map(json.loads, (folder / "qwen_math_cot.jsonl").read_text().splitlines())
    return [(response, f"${row['gt']}$") for row in rows for response in row["response"]]


def gsm8k(folder: Path) -> list[Case]:
    """Final lines of solutions to 899 GSM8K problems by 4 models, and of the golds."""
    rows = map(json.loads, (folder / "gsm8k_model_solutions.jsonl").read_text().splitlines())
    return [
        (final_line(model["solution"]), final_line(row["ground_truth"]))
        for row in rows
        for model in row.values()
        if isinstance(model, dict)
    ]


def final_line(solution: str) -> str:
    """The text after the last `A:`, marked as the final answer for both sides."""
    return f"#### {solution.rpartition('A:')[2].strip()}"


def alone(cases: list[Case]) -> list[bool]:
    """The verdicts of math-verify."""
    return [verify(parse(gold), parse(response)) for response, gold in cases]


def print_maths(data: Path) -> None:
    """Print the table of mathematics."""
    logging.disable(logging.CRITICAL)
    folder = data / "math_graded"

    def scored(cases: list[Case]) -> list[bool]:
        golds = [{"answer": gold} for _, gold in cases]
        return [verdict.correct for verdict in scorer.score([response for response, _ in cases], golds)]

    print("\n| answers | count | math-verify, answers/s | this scorer, answers/s | ratio | same verdict |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with MathScorer(workers=1, answer="final") as scorer:
        for judge in (alone, scored):
            judge([("$x + 1$", "$1 + x$")])
        for name, cases in (("MATH", qwen(folder)), ("GSM8K", gsm8k(folder))):
            rates, verdicts = [], []
            for judge in (alone, scored):
                start = time.perf_counter()
                verdicts.append(judge(cases))
                rates.append(len(cases) / (time.perf_counter() - start))
            same = sum(a == b for a, b in zip(*verdicts, strict=True)) / len(cases)
            cells = [*(f"{rate:.0f}" for rate in rates), f"{rates[1] / rates[0]:.1f}", f"{same:.2%}"]
            print(f"| {name} | {len(cases)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text2sql/spider and math_graded")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each way of SQL (default 3)")
    options = parser.parse_args()
    print_sql(options.data, options.repeats)
    print_maths(options.data)
