"""The sandbox and the worker pool: nothing an answer does reaches files, other answers or the caller."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from meanwhile import meanwhile
from published import SPIDER, needs_data
from written_databases import write_database

import dphrl
from dphrl.scoring import SqlScorer
from dphrl.scoring.verdict import InfrastructureError
from dphrl.scoring.workers.pool import Pool

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
GOLD = "SELECT 1"
SCRIPT = """
    create table t(a integer); insert into t values (1), (2), (3);
    create table s(id integer primary key, name text, score integer, grp text);
    insert into s values (1, 'ann', 9, 'a'), (2, 'bob', 9, 'b'), (3, 'cat', 7, 'a'), (4, 'dan', 7, 'b');
    insert into s values (5, 'eve', null, 'c');
"""
AMBIGUOUS = ("correct", "order-ambiguous")
ONE = {"db_id": "d", "gold_sql": GOLD}


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("databases")
    for name in ("d", "e"):
        write_database(folder, name, SCRIPT)
    (folder / "broken").mkdir()
    (folder / "broken" / "broken.sqlite").write_bytes(b"this is no database" * 100)
    return folder


@pytest.fixture(scope="module")
def scorer(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(
        databases, answer="bare", max_steps=3_000_000, max_rows=1000, max_bytes=200_000, timeout_s=5
    ) as scorer:
        yield scorer


def test_the_step_limit_does_not_depend_on_the_wall_clock(databases: Path) -> None:
    details = set()
    for _ in range(2):
        with SqlScorer(databases, answer="bare", max_steps=200_000, timeout_s=60) as scorer:
            details.add(scorer.score([ENDLESS], [ONE])[0].detail)
    assert details == {"more than 200000 steps"}


def test_a_query_past_the_wall_clock_is_tried_again_and_then_a_timeout(databases: Path) -> None:
    with SqlScorer(databases, answer="bare", max_steps=10**12, timeout_s=0.2) as scorer:
        start = time.monotonic()
        endless, good, gold_error = scorer.score(
            [ENDLESS, "SELECT 1", "SELECT 1"], [ONE, ONE, {"db_id": "d", "gold_sql": ENDLESS}]
        )
        assert time.monotonic() - start > 0.4
    assert (endless.verdict, good.verdict, gold_error.verdict) == ("timeout", "correct", "gold_error")


def test_a_missing_and_a_broken_database_stop_the_scoring(databases: Path) -> None:
    with SqlScorer(databases, answer="bare") as scorer:
        with pytest.raises(InfrastructureError, match=r"missing\.sqlite is missing"):
            scorer.score(["SELECT 1"], [{"db_id": "missing", "gold_sql": GOLD}])
        with pytest.raises(InfrastructureError, match=r"broken\.sqlite: file is not a database"):
            scorer.score(["SELECT a FROM t"], [{"db_id": "broken", "gold_sql": "SELECT a FROM t"}])
        assert scorer.score(["SELECT 1"], [ONE])[0].correct


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


def _killing(scorer: SqlScorer, number: int) -> contextlib.AbstractContextManager[None]:
    """Send a signal to each worker, a moment into its work."""

    def kill() -> None:
        for pid in scorer.pool.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    return meanwhile(kill, 0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP, signal.SIGINT])
def test_a_signal_to_a_worker_in_the_middle_changes_no_verdict(databases: Path, number: int) -> None:
    """An interrupt, which a batch system may send to every process, does not even end it."""
    slow = ENDLESS.replace("FROM t)", "FROM t LIMIT 200000)")
    queries = [f"{slow} WHERE {i} = {i}" for i in range(20)] + ["SELECT 1", "SELECT a FROM t"]
    truths = [{"db_id": "d", "gold_sql": "SELECT 200000"}] * 20 + [ONE, ONE]
    with SqlScorer(databases, answer="bare", timeout_s=1.2) as scorer:
        hit: list[int] = []
        thread = _when_running(scorer, number, hit)
        verdicts = scorer.score(queries, truths)
        thread.join()
        assert (hit[0] in scorer.pool.pids) is (number == signal.SIGINT)
    assert [v.verdict for v in verdicts] == ["correct"] * 21 + ["wrong"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGBUS])
def test_a_worker_killed_again_and_again_is_the_machines_fault(databases: Path, number: int) -> None:
    with (
        SqlScorer(databases, answer="bare", max_steps=10**12, timeout_s=30) as scorer,
        _killing(scorer, number),
        pytest.raises(InfrastructureError, match="killed from outside 6 times"),
    ):
        scorer.score([ENDLESS], [ONE])


def test_a_worker_frozen_while_it_reads_a_batch_does_not_block_the_parent(databases: Path) -> None:
    padding = " " * 90_000
    with SqlScorer(databases, answer="bare", timeout_s=0.3) as scorer:
        assert scorer.score(["SELECT 1"], [ONE])[0].correct
        (frozen,) = scorer.pool.pids
        os.kill(frozen, signal.SIGSTOP)
        start = time.monotonic()
        verdicts = scorer.score([f"SELECT{padding}{i}" for i in range(20)], [ONE] * 20)
        assert time.monotonic() - start < 10
        assert frozen not in scorer.pool.pids
    assert [v.correct for v in verdicts] == [i == 1 for i in range(20)]


@pytest.mark.full
def test_ten_thousand_answers_while_workers_are_killed_at_random(databases: Path) -> None:
    queries = [f"SELECT a FROM t WHERE a <= {i % 4} AND {i} = {i}" for i in range(10_000)]
    queries[::1000] = [f"{ENDLESS} WHERE {i} = {i}" for i in range(10)]
    truths = [{"db_id": "de"[i % 2], "gold_sql": f"SELECT a FROM t LIMIT {i % 5}"} for i in range(10_000)]
    options = {"workers": 2, "max_steps": 300_000, "programs": False}
    with SqlScorer(databases, answer="bare", **options) as scorer:  # type: ignore[arg-type]
        calm = scorer.score(queries, truths)
    assert {v.verdict for v in calm} == {"correct", "wrong", "timeout"}

    random, killed = Random(7), set()
    with SqlScorer(databases, answer="bare", **options) as scorer:  # type: ignore[arg-type]

        def kill() -> None:
            if scorer.pool.pids:
                killed.add(pid := random.choice(scorer.pool.pids))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        with meanwhile(kill, 0.05):
            stormy = scorer.score(queries, truths)
    assert len(killed) >= 5
    assert stormy == calm


LIMITS = {"max_steps": 10**9, "timeout_s": 5.0, "max_rows": 10**6, "max_bytes": 2**28}
OPTIONS = {"partial": "none", "limits": LIMITS, "programs": False}


def test_an_error_that_no_code_foresees_is_a_verdict_and_ends_no_worker(databases: Path) -> None:
    """The tasks are malformed, which is in place of an error in a library: the same code catches both."""
    database = str(databases / "d" / "d.sqlite")
    whole = {"database": database, "gold": GOLD, "comparison": "spider", "repair": False, "sql": "SELECT 1"}
    without_sql = {name: value for name, value in whole.items() if name != "sql"}
    tasks = [{**whole, "sql": 1}, {**whole, "database": 1}, {**without_sql, "database": 1}, whole]
    with contextlib.closing(Pool("sql", OPTIONS, workers=1, deadline_s=20, memory_mib=512)) as pool:
        replies = pool.run([[{"id": number, **task} for number, task in enumerate(tasks)]])
        pids = pool.pids
        pool.run([[{"id": 0, **whole}]])
        assert pool.pids == pids
    assert [replies[number]["verdict"] for number in range(4)] == ["runtime_error", *["gold_error"] * 2, "correct"]
    assert all("TypeError: " in replies[number]["detail"] for number in range(3))


def test_answers_past_the_wall_clock_are_tried_again_one_at_a_time_for_a_limited_time(databases: Path) -> None:
    seconds, workers, number = 0.4, 3, 6
    options = {**OPTIONS, "limits": {**LIMITS, "max_steps": 10**12, "timeout_s": seconds}}
    task = {"database": str(databases / "d" / "d.sqlite"), "gold": GOLD, "comparison": "spider", "repair": False}
    spent = {}
    for alone_s in (600.0, 0.0):
        with contextlib.closing(Pool("sql", options, workers, deadline_s=20, memory_mib=512, alone_s=alone_s)) as pool:
            pool.run([[{"id": i, **task, "sql": "SELECT 1"}] for i in range(workers)])
            start = time.monotonic()
            replies = pool.run([[{"id": i, **task, "sql": f"{ENDLESS} WHERE {i} = {i}"}] for i in range(number)])
            spent[alone_s] = time.monotonic() - start
        assert {i: reply["verdict"] for i, reply in replies.items()} == dict.fromkeys(range(number), "timeout")
    rounds = number // workers
    assert spent[600.0] > (rounds + number) * seconds > spent[0.0] > 2 * rounds * seconds


def test_answers_that_crash_their_workers_are_verdicts(databases: Path) -> None:
    """A hostile model may ask for SIGSEGV."""
    queries = [f"{ENDLESS} WHERE {i} = {i}" for i in range(3)]
    with (
        SqlScorer(databases, answer="bare", max_steps=10**12, timeout_s=30, programs=False) as scorer,
        _killing(scorer, signal.SIGSEGV),
    ):
        verdicts = scorer.score(queries, [ONE] * 3)
    assert [(v.verdict, v.detail) for v in verdicts] == [("runtime_error", "the worker died of SIGSEGV, twice")] * 3


def test_an_answer_out_of_memory_costs_its_worker_and_no_other_verdict(databases: Path) -> None:
    numbers = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT 9000)"
    wide = f"{numbers} SELECT '{'a' * 90_000}' || x FROM t"
    with SqlScorer(databases, answer="bare", max_bytes=2**30, memory_mib=256) as scorer:
        scorer.score(["SELECT 1"], [ONE])
        (first,) = scorer.pool.pids
        queries = ["SELECT 1", wide, "SELECT a FROM t", "SELECT 1.0"]
        golds = [GOLD, GOLD, GOLD, wide]
        verdicts = scorer.score(queries, [{"db_id": "d", "gold_sql": gold} for gold in golds])
        assert [v.verdict for v in verdicts] == ["correct", "out_of_memory", "wrong", "gold_error"]
        assert scorer.score(["SELECT 1"], [ONE])[0].correct
        (second,) = scorer.pool.pids
        assert second != first
        scorer.score(["SELECT a FROM t", "SELECT b FROM t"] * 50, [ONE] * 100)
        assert scorer.pool.pids == [second]


def test_statements_that_were_run_keep_no_memory(tmp_path: Path) -> None:
    """The heap of SQLite is limited; in a separate process, because the limit holds for all of one."""
    database = write_database(tmp_path, "d", "create table t(a)")
    sums = ", ".join(f"{'+'.join('a' * 60)} AS x{i}" for i in range(60))
    code = (
        "from dphrl.scoring.sql import sandbox\n"
        "sandbox._HEAP_BYTES = 8 * 2**20\n"
        "runs = sandbox.Sandbox(sandbox.Limits(10**9, 30.0, 1000, 10**6))\n"
        "for k in range(25):\n"
        f"    sql = f'WITH c AS NOT MATERIALIZED (SELECT {sums} FROM t WHERE a > {{k}}) '\n"
        f"    print(runs.execute({str(database)!r}, sql + ' UNION ALL '.join(['SELECT * FROM c'] * 5)).outcome)\n"
    )
    root = Path(dphrl.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["ok"] * 25


def test_a_worker_that_cannot_start_says_why() -> None:
    pool = Pool("poetry", {}, workers=1, deadline_s=1, memory_mib=512)
    with pytest.raises(InfrastructureError, match=r"(?s)cannot be started.*KeyError: 'poetry'"):
        pool.run([[{"id": 0}]])


@pytest.mark.parametrize(
    ("gold", "found"),
    [
        ("SELECT a FROM t", ("correct", None)),
        ("SELECT a FROM t LIMIT 2", AMBIGUOUS),
        ("SELECT group_concat(a) FROM t", AMBIGUOUS),
        ("SELECT a FROM t ORDER BY a > 0", AMBIGUOUS),
        ("SELECT count(*) FROM (SELECT a FROM t ORDER BY a > 0 LIMIT 1)", ("correct", None)),
        ("SELECT a FROM t WHERE a > 9", ("correct", "empty")),
        ("SELECT b FROM t", ("gold_error", "unrunnable")),
        ("SELECT random()", ("gold_error", "unrunnable")),
        (ENDLESS, ("gold_error", "unrunnable")),
        # Any row of a group, or any of ties.
        ("SELECT name, grp FROM s GROUP BY grp", AMBIGUOUS),
        ("SELECT name FROM s GROUP BY grp HAVING count(*) > 1", AMBIGUOUS),
        ("SELECT count(*), name FROM s", AMBIGUOUS),
        ("SELECT max(score), name FROM s", AMBIGUOUS),
        ("SELECT name FROM (SELECT name, row_number() OVER (ORDER BY score) r FROM s) WHERE r = 2", AMBIGUOUS),
        ("WITH t AS (SELECT * FROM s ORDER BY score DESC LIMIT 1) SELECT name FROM t", AMBIGUOUS),
        ("SELECT id, name, score FROM s GROUP BY id", ("correct", None)),
        ("SELECT upper(grp) AS g, count(*) AS n FROM s GROUP BY g ORDER BY n, g", ("correct", None)),
        ("SELECT max(id), name FROM s GROUP BY grp", ("correct", None)),
        ("SELECT name, rank() OVER (ORDER BY score) FROM s", ("correct", None)),
        ("SELECT score, sum(score) OVER (ORDER BY score) FROM s", ("correct", None)),
        ("SELECT (SELECT name FROM s AS t WHERE t.id = s.id), count(*) FROM s GROUP BY id", ("correct", None)),
    ],
)
def test_the_audit_of_a_gold_names_the_first_reason_against_it(
    scorer: SqlScorer, gold: str, found: tuple[str, str | None]
) -> None:
    assert scorer.audit([{"db_id": "d", "gold_sql": gold}] * 2) == [found] * 2


def test_a_gold_is_examined_under_its_own_comparison(scorer: SqlScorer) -> None:
    gold = {"db_id": "d", "gold_sql": "SELECT a FROM t WHERE 'order by' <> ''"}
    audited = scorer.audit([gold | {"comparison": comparison} for comparison in ("spider", "bird")])
    assert audited == [AMBIGUOUS, ("correct", None)]


@needs_data
def test_the_audit_of_the_spider_golds() -> None:
    rows = json.loads((SPIDER / "dev.json").read_text())
    with SqlScorer(SPIDER / "database", answer="bare", workers=2) as scorer:
        audited = scorer.audit([{"db_id": row["db_id"], "gold_sql": row["query"]} for row in rows])
    # Ties under ORDER BY, most of them before a LIMIT; four averages, whose last bits differ; two ties of max().
    assert Counter(audited) == {("correct", None): 548, ("correct", "empty"): 13, AMBIGUOUS: 47}


def test_a_worker_has_no_network(scorer: SqlScorer) -> None:
    scorer.score(["SELECT 1"], [ONE])
    for pid in scorer.pool.pids:
        interfaces = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        routes = Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:]
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            pytest.skip("this kernel lets no process leave the network")
        assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
        assert routes == []


def test_programs_are_left_out_on_request(databases: Path, scorer: SqlScorer) -> None:
    (with_program,) = scorer.score(["SELECT 1"], [ONE])
    with SqlScorer(databases, answer="bare", programs=False) as plain:
        (without,) = plain.score(["SELECT 1"], [ONE])
    assert with_program.program_class is not None
    assert without == replace(with_program, program_class=None)


def test_answers_are_the_same_on_any_number_of_workers_and_equal_ones_run_once(databases: Path) -> None:
    queries = [f"SELECT a FROM t WHERE a <= {i % 5}" for i in range(200)]
    truths = [{"db_id": "de"[i % 2], "gold_sql": f"SELECT a FROM t LIMIT {i % 3}"} for i in range(200)]
    results = []
    for workers in (1, 3):
        with SqlScorer(databases, answer="bare", workers=workers) as scorer:
            results.append(scorer.score(queries, truths))
            assert results[-1] == scorer.score(queries, truths)
    assert results[0] == results[1]
    assert {v.verdict for v in results[0]} == {"correct", "wrong"}


def test_nothing_starts_without_work_and_nothing_stays_after_the_end(databases: Path) -> None:
    with SqlScorer(databases, answer="bare", workers=2) as scorer:
        assert scorer.score(["-- no answer here"], [ONE])[0].verdict == "no_answer"
        assert scorer.score([], []) == []
        assert scorer.pool.pids == []
        scorer.score(["SELECT 1"], [ONE])
        (pid,) = scorer.pool.pids
    assert scorer.pool.pids == []
    assert not Path(f"/proc/{pid}").exists()


def test_a_worker_ends_with_its_parent_in_the_middle_of_a_query(databases: Path) -> None:
    code = (
        "import sys, threading, time, os\n"
        f"sys.path.insert(0, {str(Path(dphrl.__file__).parent.parent)!r})\n"
        "from dphrl.scoring import SqlScorer\n"
        f"scorer = SqlScorer({str(databases)!r}, answer='bare', max_steps=10**12, timeout_s=60)\n"
        f"work = lambda: scorer.score([{ENDLESS!r}], [{ONE!r}])\n"
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
    except (FileNotFoundError, ProcessLookupError):
        return False
