"""The sandbox and the worker pool: nothing an answer does reaches files, other answers or the caller."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dphrl
from dphrl.scoring import InfrastructureError, SqlScorer
from dphrl.scoring.pool import Pool

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
GOLD = "SELECT 1"
ONE = {"db_id": "d", "gold_sql": GOLD}


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("databases")
    for name in ("d", "e"):
        (folder / name).mkdir()
        with sqlite3.connect(folder / name / f"{name}.sqlite") as connection:
            connection.executescript("create table t(a integer); insert into t values (1), (2), (3);")
    (folder / "broken").mkdir()
    (folder / "broken" / "broken.sqlite").write_bytes(b"this is no database" * 100)
    return folder


@pytest.fixture(scope="module")
def scorer(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(databases, max_steps=3_000_000, max_rows=1000, max_bytes=200_000, timeout_s=5) as scorer:
        yield scorer


@pytest.mark.parametrize(
    ("sql", "verdict"),
    [
        (ENDLESS, "timeout"),
        ("SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o", "timeout"),
        ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t", "too_large"),
        ("SELECT replace(replace(replace('aaaaaaaaaa','a','bbbbbbbbbb'),'b','cccccccccc'),'c','dddddddddd') "
         "FROM t, t, t, t", "too_large"),
        ("SELECT zeroblob(90000) FROM t", "refused"),
        ("SELECT group_concat(x) FROM (WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT 90000) "
         "SELECT x FROM t)", "too_large"),
        ("SELECT '" + "x" * 100_001 + "'", "too_large"),
        ("SELECT printf('%.*c', 900000000, 'x')", "refused"),
        ("SELECT load_extension('x')", "refused"),
        ("SELECT random()", "refused"),
        ("INSERT INTO t VALUES (4)", "refused"),
        ("WITH x AS (SELECT 9 AS a) INSERT INTO t SELECT a FROM x", "refused"),
        ("DROP TABLE t", "refused"),
        ("VACUUM INTO 'stolen.sqlite'", "refused"),
        ("ATTACH 'stolen.sqlite' AS s", "refused"),
        ("SELECT 1; DROP TABLE t", "refused"),
        ("PRAGMA journal_mode=DELETE", "refused"),
        ("SELECT * FROM pragma_table_info('t')", "refused"),
        ("EXPLAIN SELECT 1", "refused"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "parse_error"),
        ("SELECT " + "+".join(["1"] * 5000), "parse_error"),
    ],
)  # fmt: skip
def test_what_an_answer_may_not_do(
    scorer: SqlScorer, databases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, verdict: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = (databases / "d" / "d.sqlite").read_bytes()
    found, after = scorer.score_sql([sql, "SELECT 1"], [ONE, ONE])
    assert found.verdict == verdict, found.detail
    assert found.reward == 0.0
    assert after.correct
    assert (databases / "d" / "d.sqlite").read_bytes() == before
    assert not list(tmp_path.iterdir())


def test_the_step_limit_does_not_depend_on_the_wall_clock(databases: Path) -> None:
    details = set()
    for _ in range(2):
        with SqlScorer(databases, max_steps=200_000, timeout_s=60) as scorer:
            details.add(scorer.score_sql([ENDLESS], [ONE])[0].detail)
    assert details == {"more than 200000 steps"}


def test_a_query_past_the_wall_clock_is_tried_again_and_then_a_timeout(databases: Path) -> None:
    with SqlScorer(databases, max_steps=10**12, timeout_s=0.2) as scorer:
        start = time.monotonic()
        endless, good, gold_error = scorer.score_sql(
            [ENDLESS, "SELECT 1", "SELECT 1"], [ONE, ONE, {"db_id": "d", "gold_sql": ENDLESS}]
        )
        assert time.monotonic() - start > 0.4
    assert (endless.verdict, good.verdict, gold_error.verdict) == ("timeout", "correct", "gold_error")


def test_a_missing_and_a_broken_database_stop_the_scoring(databases: Path) -> None:
    with SqlScorer(databases) as scorer:
        with pytest.raises(InfrastructureError, match=r"missing\.sqlite is missing"):
            scorer.score_sql(["SELECT 1"], [{"db_id": "missing", "gold_sql": GOLD}])
        with pytest.raises(InfrastructureError, match=r"broken\.sqlite: file is not a database"):
            scorer.score_sql(["SELECT a FROM t"], [{"db_id": "broken", "gold_sql": "SELECT a FROM t"}])
        assert scorer.score_sql(["SELECT 1"], [ONE])[0].correct


def _when_running(scorer: SqlScorer, number: int, hit: list[int]) -> threading.Thread:
    """Send a signal to the first worker that comes up, a moment into its work; `hit` gets its process id."""

    def send() -> None:
        while not scorer.pool.pids:
            time.sleep(0.005)
        time.sleep(0.1)
        hit.append(scorer.pool.pids[0])
        os.kill(hit[0], number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
def test_a_worker_lost_in_the_middle_changes_no_verdict(databases: Path, number: int) -> None:
    slow = ENDLESS.replace("FROM t)", "FROM t LIMIT 200000)")
    queries = [f"{slow} WHERE {i} = {i}" for i in range(20)] + ["SELECT 1", "SELECT a FROM t"]
    truths = [{"db_id": "d", "gold_sql": "SELECT 200000"}] * 20 + [ONE, ONE]
    with SqlScorer(databases, timeout_s=1.2) as scorer:
        hit: list[int] = []
        thread = _when_running(scorer, number, hit)
        verdicts = scorer.score_sql(queries, truths)
        thread.join()
        assert hit[0] not in scorer.pool.pids
    assert [v.verdict for v in verdicts] == ["correct"] * 21 + ["wrong"]


def test_a_worker_killed_again_and_again_is_the_machines_fault(databases: Path) -> None:
    done = threading.Event()
    with SqlScorer(databases, max_steps=10**12, timeout_s=30) as scorer:

        def kill() -> None:
            while not done.is_set():
                for pid in scorer.pool.pids:
                    time.sleep(0.05)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            with pytest.raises(InfrastructureError, match="lost twice"):
                scorer.score_sql([ENDLESS], [ONE])
        finally:
            done.set()
            thread.join()


def test_a_worker_that_cannot_start_says_why() -> None:
    pool = Pool("poetry", {}, workers=1, deadline_s=1, memory_mib=512)
    with pytest.raises(InfrastructureError, match=r"(?s)cannot be started.*KeyError: 'poetry'"):
        pool.run([[{"id": 0}]])


def test_answers_are_the_same_on_any_number_of_workers_and_equal_ones_run_once(databases: Path) -> None:
    queries = [f"SELECT a FROM t WHERE a <= {i % 5}" for i in range(200)]
    truths = [{"db_id": "de"[i % 2], "gold_sql": f"SELECT a FROM t LIMIT {i % 3}"} for i in range(200)]
    results = []
    for workers in (1, 3):
        with SqlScorer(databases, workers=workers) as scorer:
            results.append(scorer.score_sql(queries, truths))
            assert results[-1] == scorer.score_sql(queries, truths)
    assert results[0] == results[1]
    assert {v.verdict for v in results[0]} == {"correct", "wrong"}


def test_nothing_starts_without_work_and_nothing_stays_after_the_end(databases: Path) -> None:
    with SqlScorer(databases, workers=2) as scorer:
        assert scorer.score(["no answer here"], [ONE])[0].verdict == "no_answer"
        assert scorer.score([], []) == []
        assert scorer.pool.pids == []
        scorer.score_sql(["SELECT 1"], [ONE])
        (pid,) = scorer.pool.pids
    assert scorer.pool.pids == []
    assert not Path(f"/proc/{pid}").exists()


def test_a_worker_ends_with_its_parent_in_the_middle_of_a_query(databases: Path) -> None:
    code = (
        "import sys, threading, time, os\n"
        f"sys.path.insert(0, {str(Path(dphrl.__file__).parent.parent)!r})\n"
        "from dphrl.scoring import SqlScorer\n"
        f"scorer = SqlScorer({str(databases)!r}, max_steps=10**12, timeout_s=60)\n"
        f"work = lambda: scorer.score_sql([{ENDLESS!r}], [{ONE!r}])\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "while not scorer.pool.pids: time.sleep(0.01)\n"
        "time.sleep(0.1)\n"
        "print(scorer.pool.pids[0], flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
