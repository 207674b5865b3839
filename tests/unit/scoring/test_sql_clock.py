"""SQL sees one fixed time, whichever way it asks for it; all other dates are SQLite's own."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from written_databases import write_database

from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.sandbox import Execution, Limits, Sandbox

LIMITS = Limits(max_steps=10**7, timeout_s=30.0, max_rows=100, max_bytes=10**6)
NEW_YEAR, SECONDS, DAYS = "2020-01-01", 1577836800, 2458849.5
BORN = "1990-05-17"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    script = (
        f"CREATE TABLE t(born, word, year AS (strftime('%Y', born))); INSERT INTO t VALUES ('{BORN}', 'now');"
        "CREATE INDEX by_month ON t(strftime('%m', born));"
        "CREATE VIEW v AS SELECT strftime('%Y', born) AS year, date('now') AS today FROM t;"
        "CREATE VIEW chance AS SELECT random() AS number;"
    )
    return write_database(tmp_path, "d", script)


@pytest.fixture(scope="module")
def execute() -> Iterator[Callable[[Path, str], Execution]]:
    """Runs SQL in another process: the limit of memory that a sandbox sets holds for all of its process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield lambda database, sql: process.submit(Sandbox.execute, Sandbox(LIMITS), str(database), sql).result()


@pytest.mark.parametrize(
    ("expressions", "values"),
    [
        ("date('now'), date('NOW', '+1 day'), date()", (NEW_YEAR, "2020-01-02", NEW_YEAR)),
        ("time('now'), datetime('now')", ("00:00:00", f"{NEW_YEAR} 00:00:00")),
        ("CURRENT_DATE, current_time, CURRENT_TIMESTAMP", (NEW_YEAR, "00:00:00", f"{NEW_YEAR} 00:00:00")),
        ("julianday('now'), julianday(), julianday('now') % 2", (DAYS, DAYS, 1.0)),
        ("strftime('%s', 'now'), strftime('%Y'), unixepoch()", (str(SECONDS), "2020", SECONDS)),
        ("date('n' || 'ow'), date(word), date(x'6e6f77'), date('now' || char(0) || 'x')", (NEW_YEAR,) * 4),
        ("strftime('now', born), date(born, 'now')", ("now", None)),
        ("date(born, '+1 month'), strftime('%m', born), year", ("1990-06-17", "05", "1990")),
        ("typeof(julianday(born)), date(NULL), date('x')", ("real", None, None)),
        ("(SELECT year FROM v), (SELECT today FROM v)", ("1990", NEW_YEAR)),
        ("(SELECT count(*) FROM t WHERE strftime('%m', born) = '05')", (1,)),
    ],
)
def test_sql_sees_a_fixed_time(
    database: Path, execute: Callable[[Path, str], Execution], expressions: str, values: tuple[Any, ...]
) -> None:
    execution = execute(database, f"SELECT {expressions} FROM t")
    assert (execution.outcome, execution.rows) == ("ok", [values])


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 43), reason="this SQLite has neither `subsec` nor timediff")
def test_sql_sees_a_fixed_time_in_functions_of_newer_versions(
    database: Path, execute: Callable[[Path, str], Execution]
) -> None:
    sql = "SELECT datetime('subsec'), unixepoch('now', 'subsec'), timediff('now', '2019-01-01')"
    rows = [(f"{NEW_YEAR} 00:00:00.000", float(SECONDS), "+0001-00-00 00:00:00.000")]
    assert execute(database, sql).rows == rows


def test_a_view_calls_no_function_that_a_query_may_not_call(
    database: Path, execute: Callable[[Path, str], Execution]
) -> None:
    assert execute(database, "SELECT number FROM chance").outcome == "refused"


def test_local_time_is_that_of_no_machine(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    truth = {"db_id": "d", "gold_sql": f"SELECT '{NEW_YEAR} 00:00:00'"}
    with SqlScorer(database.parent.parent, answer="bare") as scorer:
        (verdict,) = scorer.score(["SELECT datetime('now', 'localtime')"], [truth])
    assert verdict.correct
