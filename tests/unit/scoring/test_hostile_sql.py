"""A corpus of hostile SQL: each statement gets its verdict in time and memory, and leaves no trace."""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from written_databases import write_database

from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.sandbox import MAX_LENGTH
from dphrl.scoring.verdict import InfrastructureError

TIMEOUT_S = 0.5
LIMITS: dict[str, Any] = {"answer": "bare", "max_steps": 2_000_000, "max_rows": 5000, "max_bytes": 2**20}
TRUTH = {"db_id": "d", "gold_sql": "SELECT a FROM t"}

COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
FEW = COUNT.replace("FROM c)", "FROM c LIMIT 20000)")
TEN = "WITH d(x) AS (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9))"


def long_text(power: int) -> str:
    """An expression for 10 ** power times the text of column b, which makes it no constant."""
    text = "b"
    for _ in range(power):
        text = f"replace('xxxxxxxxxx', 'x', {text})"
    return text


def repeated(text: str, count: int, between: str = ", ") -> str:
    return between.join([text] * count)


def nested(before: str, middle: str, after: str, depth: int) -> str:
    return "SELECT " + before * depth + middle + after * depth


LONG = f"(a || {long_text(4)} || {long_text(4)} || {long_text(4)})"

REFUSED = [
    # Other files and other databases.
    "ATTACH 'stolen.sqlite' AS s",
    "ATTACH 'file:stolen.sqlite?mode=rwc' AS s",
    "VACUUM",
    "VACUUM INTO 'stolen.sqlite'",
    "SELECT load_extension('libc.so.6')",
    "SELECT fts3_tokenizer('simple')",
    ".read /etc/passwd",
    # Settings.
    "PRAGMA journal_mode=DELETE",
    "PRAGMA hard_heap_limit=0",
    "pragma\ttable_info(t)",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT * FROM main.pragma_user_version",
    "SELECT a FROM t WHERE a IN (SELECT seq FROM pragma_index_list('t'))",
    # Writing.
    "INSERT INTO t VALUES (4, 'd')",
    "INSERT INTO t VALUES (4, 'd') RETURNING a",
    "UPDATE t SET a = 0",
    "DELETE FROM t",
    "WITH x AS (SELECT 9) INSERT INTO t SELECT 9, 'x' FROM x",
    "CREATE TABLE u(a)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE VIRTUAL TABLE f USING fts5(a)",
    "DROP TABLE t",
    "ALTER TABLE t RENAME TO u",
    "DELETE FROM sqlite_master",
    # Transactions.
    "BEGIN",
    "COMMIT",
    "SAVEPOINT s",
    # More than one statement.
    "SELECT 1; DROP TABLE t",
    "SELECT 1; -- quiet\nDELETE FROM t",
    "SELECT 1; /* quiet */ PRAGMA query_only=0",
    # Behind comments, white space and look-alikes.
    "-- SELECT\nDROP TABLE t",
    "/* SELECT 1 */--\n/**/DELETE FROM t",
    "\uff33\uff25\uff2c\uff25\uff23\uff34 1",
    "\x00SELECT 1",
    ";SELECT 1",
    "(SELECT 1)",
    "Here is the query: SELECT a FROM t",
    # Query plans.
    "EXPLAIN SELECT a FROM t",
    # Functions with another result each time, or with steps of seconds.
    "SELECT random()",
    "SELECT a FROM t ORDER BY RANDOM() LIMIT 1",
    "SELECT hex(randomblob(8))",
    "SELECT zeroblob(1000000000)",
    'SELECT "zeroblob"(9), t.* FROM t',
    "SELECT changes(), total_changes(), last_insert_rowid()",
    "SELECT printf('%.*c', 900000000, 'x')",
    "SELECT format('%.900000000f', 1.0)",
    "SELECT a FROM t WHERE printf('%d', a) = '1'",
    f"{COUNT} SELECT format('%.*c', x, 'x') FROM c",
    # What would stay in the worker, for the answers after this one.
    "PRAGMA case_sensitive_like=1",
    "PRAGMA reverse_unordered_selects=1",
    "PRAGMA hard_heap_limit=1000",
    "/* */ PRAGMA busy_timeout=1000000",
    "SELECT * FROM pragma_hard_heap_limit(1000)",
    "SELECT (SELECT * FROM pragma_journal_mode('delete')) FROM t",
    "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
    "WITH x AS (SELECT 1) REPLACE INTO sqlite_master SELECT * FROM x",
    # Denied functions by another spelling or in another place.
    'SELECT "random"() FROM t',
    "SELECT `load_extension`('x') FROM t",
    "SELECT RaNdOm /* */ () FROM t",
    "SELECT max(a) FILTER (WHERE random()) FROM t",
    "SELECT json_array(zeroblob(9)) FROM t",
    "SELECT CASE WHEN 0 THEN random() END FROM t",
    # Of other databases.
    "TABLE t",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
    "MERGE INTO t USING t ON 1 WHEN MATCHED THEN DELETE",
    "\u200bSELECT 1",
]

TIMEOUT = [
    # Endless recursion.
    f"{COUNT} SELECT max(x) FROM c",
    f"{COUNT} SELECT 1 WHERE EXISTS (SELECT 1 FROM c WHERE x < 0)",
    f"{COUNT} SELECT a FROM t WHERE a NOT IN (SELECT x + 9 FROM c)",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT (x + 1) % 900000000 FROM c) SELECT max(x) FROM c WHERE x < 0",
    f"{COUNT}, e(y) AS (SELECT max(x) FROM c) SELECT y FROM e",
    "WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT substr(x || 'a', 1, 50) FROM c) SELECT min(x) FROM c",
    "SELECT (WITH RECURSIVE e(y) AS (SELECT a UNION ALL SELECT y + 1 FROM e) SELECT max(y) FROM e) FROM t",
    # Cross joins.
    f"{FEW} SELECT count(*) FROM c p, c q, c r, c s, c u, c v",
    f"{FEW} SELECT max(p.x) FROM c p LEFT JOIN c q ON p.x + q.x < 0",
    f"{FEW} SELECT count(*) FROM c p WHERE (SELECT count(*) FROM c q WHERE q.x <> p.x) < 0",
    f"{TEN} SELECT count(*) FROM {', '.join(f'd x{i}' for i in range(9))}",
    f"{FEW} SELECT count(*) FROM c p, c q WHERE p.x LIKE '%' || q.x || '%'",
    # Windows and sorts.
    f"{FEW} SELECT sum(y) FROM (SELECT max(x) OVER (ORDER BY x ROWS 9999 PRECEDING EXCLUDE CURRENT ROW) AS y FROM c)",
    f"{FEW} SELECT sum(y) FROM (SELECT count(*) OVER (ORDER BY p.x, q.x) AS y FROM c p, c q)",
    f"{FEW} SELECT p.x FROM c p, c q ORDER BY q.x, p.x LIMIT 1",
    f"{FEW} SELECT p.x FROM c p, c q GROUP BY p.x * q.x HAVING count(*) < 0",
    # Endless where a query is seldom written.
    f"{COUNT} SELECT a FROM t LIMIT (SELECT max(x) FROM c)",
    f"{COUNT} SELECT count(*) FILTER (WHERE a IN (SELECT -x FROM c)) FROM t",
    f"{COUNT} SELECT b LIKE 'a' ESCAPE (SELECT max(x) FROM c) FROM t",
    f"{COUNT}, m AS MATERIALIZED (SELECT x FROM c) SELECT 1 FROM m WHERE x < 0",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT -1) SELECT max(x) FROM c",
    f"{FEW} SELECT max(p.x || q.x) FROM c p, c q WHERE p.x || q.x GLOB '*a*'",
    # Seconds between two checks of the clock: many searches of a long text, each one step.
    f"SELECT {repeated('instr(h || h, h || a)', 250)} FROM t, (SELECT '{'a' * 45_000}' AS h)",
    f"{FEW} SELECT sum(instr(h || h, h || x)) FROM c, (SELECT '{'a' * 45_000}' AS h)",
]

TOO_LARGE = [
    f"{COUNT} SELECT x FROM c",
    f"{FEW} SELECT {LONG} FROM c, t",
    f"SELECT {repeated(LONG, 50)} FROM t",
    f"SELECT length({long_text(6)}) FROM t",
    f"SELECT length({repeated(LONG, 9, ' || ')}) FROM t",
    f"{FEW} SELECT length(group_concat(x)) FROM c",
    f"{FEW} SELECT length(json_group_object(x, x)) FROM c",
    f"SELECT length(hex({LONG})) + length(hex({LONG} || {LONG})) FROM t",
    f"SELECT quote(CAST({LONG} || {LONG} AS BLOB)) FROM t",
    f"SELECT replace({LONG}, 'a', {LONG}) FROM t",
    "WITH RECURSIVE c(x) AS (SELECT 'aaaaaaaaaa' UNION ALL SELECT x || x FROM c) SELECT max(length(x)) FROM c",
    "SELECT '" + "x" * 100_001 + "'",
    "SELECT 1 -- " + "x" * 10_000_000,
    "SELECT a FROM t WHERE a IN (" + ",".join(map(str, range(100_000))) + ")",
    "SELECT x'" + "00" * 99_000 + "'",
    "SELECT strftime('" + "%f" * 20_000 + "', 'now')",
]

UNPARSED = [
    "SELECT '\x00'",
    "SELECT '\ud800'",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "+".join(["1"] * 5000),
    "SELECT " + "NOT " * 20_000 + "1",
    "SELECT " + "CASE WHEN 1 THEN " * 2000 + "1" + " END" * 2000,
    "SELECT " + "(SELECT " * 3000 + "1" + ")" * 3000,
    "SELECT 1 WHERE " + "1 AND " * 9000 + "1",
    "SELECT 'unclosed",
    "SELECT /* unclosed",
    "SELECT ?, :name, @name, $name",
    "SELECT \x1b[31m1",
    "SELECT a\u037e DROP TABLE t",
    # Deeper than SQLite's parser goes; sqlglot must not see them.
    nested("date(", "1", ")", 80),
    nested("(SELECT ", "max(a) AS x FROM t", " AS x)", 19),
    nested("(SELECT max(x) FROM (SELECT ", "1 AS x", ") AS x)", 10),
    nested("CASE WHEN 1 THEN ", "1", " END", 40),
    nested("1 IN (", "1", ")", 40),
    nested("array[", "1", "]", 20),
    "SELECT * FROM " + "(SELECT * FROM " * 30 + "t" + ")" * 30,
    "SELECT a FROM t WHERE a = " + "(SELECT max(a) FROM t WHERE a = " * 20 + "1" + ")" * 20,
    # Texts that look like something else.
    "SELECT\u200b1",
    "SELECT 1 # DROP TABLE t",
    "SELECT 1_000",
    "SELECT NULL IS NOT",
]

FAILING = [
    "SELECT writefile('stolen', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT * FROM fsdir('.')",
    "SELECT * FROM generate_series(1, 900000000)",
    "SELECT * FROM sqlite_dbpage",
    "SELECT 'a' REGEXP '(a+)+$'",
    "SELECT a FROM other.t",
    "SELECT json('{')",
    "SELECT json('" + "[" * 50_000 + "')",
    'SELECT t."file is not a database" FROM t',
    'SELECT t."database disk image is malformed" FROM t',
    'SELECT t."interrupted" FROM t',
    'SELECT t."not authorized" FROM t',
    "SELECT " + ", ".join(["1"] * 20_000),
    "SELECT count(*) FROM " + ", ".join(f"t x{i}" for i in range(100)),
    "SELECT a FROM t WHERE a LIKE '" + "%a" * 40_000 + "'",
    "SELECT abs(-9223372036854775808)",
    "SELECT sum(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)",
    "SELECT ?1000000",
    "WITH RECURSIVE c AS (SELECT * FROM c) SELECT * FROM c",
    "SELECT matchinfo(t) FROM t",
    "SELECT sleep(100)",
    # SQLite's own and other programs' functions and tables.
    "SELECT sqlite_rename_table('main', '', '', 't', 'u', 0)",
    "SELECT eval('DROP TABLE t')",
    "SELECT likelihood(a, 2) FROM t",
    "SELECT * FROM pragma_case_sensitive_like(1)",
    "SELECT * FROM sqlite_sequence",
    "SELECT raise(ABORT, 'x')",
    # Arguments out of range.
    "SELECT ntile(0) OVER () FROM t",
    "SELECT sum(a) OVER (ORDER BY a ROWS -1 PRECEDING) FROM t",
    "SELECT b LIKE 'a' ESCAPE 'ab' FROM t",
    "SELECT json_object('a', x'00')",
    "WITH x AS (VALUES (1), (2, 3)) SELECT * FROM x",
    # Deep, but not for SQLite's parser.
    nested("struct(", "1", ")", 20),
    nested("count(*) FILTER (WHERE ", "1", ")", 9),
    "SELECT 1 FROM " + "(t JOIN " * 15 + "t" + ")" * 15,
]

WRONG = [
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_temp_master",
    "SELECT sqlite_version(), sqlite_source_id()",
    "SELECT sqlite_log(1, 'x')",
    "SELECT date('now'), time('now'), datetime('now')",
    "SELECT 9e999, -9e999, 0.0 / 0.0, 9223372036854775807 + 1",
    "SELECT CAST(x'ff00fe' AS TEXT), CAST(x'eda080' AS TEXT), x'00'",
    "SELECT char(0, 55296, 1114111, 1114112, -1)",
    "SELECT a FROM t WHERE '" + "a" * 4000 + "' LIKE '" + "%a" * 40 + "%b'",
    "SELECT a FROM t WHERE a IN (" + ",".join(map(str, range(9, 15_000))) + ")",
    "SELECT " + ", ".join(["1"] * 2000),
    " UNION ALL ".join(["SELECT 1"] * 400),
    "SELECT value FROM json_each('[1, 2]')",
    "SELECT '-- ; DROP TABLE t'",
    "SELECT 1; -- nothing more",
    "/* DROP TABLE t */ SELECT 1",
    "SELECT trim(" + long_text(4) + ", 'abcdefghij') FROM t",
    f"{FEW} SELECT count(*) FROM (SELECT x FROM c ORDER BY -x)",
    "SELECT substr(b, -9223372036854775807, 9223372036854775807) FROM t",
    "SELECT a FROM t LIMIT -1 OFFSET 9223372036854775807",
    "SELECT json('" + "[" * 900 + "]" * 900 + "')",
    # SQLite runs these at once; sqlglot would take up to exponential time to class them.
    nested("date(", "'2020-01-01'", ")", 25),
    nested("cast(", "1", " AS int)", 40),
    nested("(SELECT ", "max(a) AS x FROM t", " AS x)", 12),
    nested("CASE ", "1", " WHEN 1 THEN 1 END", 40),
    nested("- ", "1", "", 90),
    "SELECT 1 FROM " + "(" * 30 + "t" + ")" * 30,
    "SELECT '{}' " + "-> 'a' " * 900,
    "SELECT 1 " + "IS NULL " * 900,
    # Odd values.
    "SELECT 0x8000000000000000, -0x1, 0xffffffffffffffff",
    "SELECT CAST('1e99999' AS INTEGER), CAST('" + "9" * 9000 + "' AS INTEGER)",
    "SELECT date('now', '+99999999999 years'), date(9e999), time('24:61')",
    "SELECT json_patch('" + '{"a":' * 900 + "1" + "}" * 900 + "', '{}')",
    "SELECT '{}' ->> '$" + "[0]" * 5000 + "'",
    "SELECT rtreenode(2, x'00'), rtreedepth(x'0000') FROM t",
    "SELECT 1 --\r; DROP TABLE t",
    "WITH/**/x AS(SELECT 1)SELECT*FROM x",
    "SELECT '\U0010ffff' || char(1114111)",
]

BIG = f"x || '{'a' * 45_000}'"
OUT_OF_MEMORY = [
    f"{FEW} SELECT count(*) FROM (SELECT {BIG} AS y FROM c GROUP BY y)",
    f"{FEW}, m AS MATERIALIZED (SELECT {BIG} AS y FROM c) SELECT count(*) FROM m p, m q WHERE p.y = q.y",
    f"{FEW} SELECT count(*) FROM (SELECT first_value({BIG}) OVER (ORDER BY x ROWS 20000 PRECEDING) FROM c)",
    f"{FEW} SELECT {BIG} FROM c EXCEPT SELECT 1",
    f"{FEW} SELECT count(*) FROM c WHERE {BIG} IN (SELECT {BIG} FROM c)",
    # SQLite copies the value of a name for each use, and so on in each subquery.
    nested("(SELECT ", "1", " AS x ORDER BY x, x, x)", 12),
    # Before the first step: each name expands to two of the one before.
    "WITH c0 AS (SELECT 1 AS x), "
    + ", ".join(f"c{i} AS NOT MATERIALIZED (SELECT p.x FROM c{i - 1} p, c{i - 1} q)" for i in range(1, 30))
    + " SELECT x FROM c29",
]

CORPUS = [
    (sql, verdict)
    for verdict, statements in (
        ("refused", REFUSED),
        ("timeout", TIMEOUT),
        ("too_large", TOO_LARGE),
        ("parse_error", UNPARSED),
        ("runtime_error", FAILING),
        ("wrong", WRONG),
    )
    for sql in statements
]


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = "create table t(a integer, b text); insert into t values (1, 'abcdefghij'), (2, 'b'), (3, 'c');"
    return write_database(tmp_path_factory.mktemp("databases"), "d", script).parents[1]


@pytest.fixture(scope="module")
def scorer(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(databases, timeout_s=TIMEOUT_S, **LIMITS) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def fenced(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(databases) as scorer:
        yield scorer


def state(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of everything under a folder."""
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*"))


def peak_mib(pid: int) -> int:
    """The most memory that a process has held; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"VmHWM:\s*(\d+)", status)
    return int(found[1]) // 1024 if found else 0


@pytest.mark.parametrize(("sql", "verdict"), CORPUS, ids=[f"{verdict}-{n}" for n, (_, verdict) in enumerate(CORPUS)])
def test_a_hostile_statement_gets_its_verdict_in_time_and_leaves_no_trace(
    scorer: SqlScorer, databases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, verdict: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = state(databases)
    scorer.score(["SELECT 1"], [TRUTH])
    start = time.monotonic()
    found, after = scorer.score([sql, "SELECT a FROM t WHERE a"], [TRUTH, TRUTH])
    seconds = time.monotonic() - start
    assert (found.verdict, found.reward) == (verdict, 0.0), found.detail
    assert after.correct
    # Twice, as a query out of time is tried again, the limit and a second; and two workers started.
    assert seconds < 2 * (TIMEOUT_S + 1) + 2
    assert max(map(peak_mib, scorer.pool.pids), default=0) < 1024
    assert state(databases) == before
    assert os.listdir() == []


@pytest.mark.parametrize("sql", OUT_OF_MEMORY, ids=range(len(OUT_OF_MEMORY)))
def test_a_memory_bomb_under_the_default_limits_is_out_of_memory(databases: Path, sql: str) -> None:
    with SqlScorer(databases, answer="bare") as scorer, ThreadPoolExecutor() as executor:
        scored = executor.submit(scorer.score, [sql, "SELECT a FROM t"], [TRUTH, TRUTH])
        peak = 0
        while not scored.done():
            # The workers of such an answer are replaced, so they are watched while they live.
            peak = max([peak, *map(peak_mib, scorer.pool.pids)])
            time.sleep(0.005)
    found, after = scored.result()
    assert found.verdict == "out_of_memory", found.detail
    assert after.correct
    assert 100 < peak < 1024


FENCED = "```sql\nSELECT a FROM t\n```"
MEGABYTES = {
    "prose before": ("word " * 700_000 + FENCED, "correct"),
    "blocks before": (FENCED.replace("a", "b") * 100_000 + FENCED, "correct"),
    "openings before": ("```sql\n" * 400_000 + "\n```\n" + FENCED, "correct"),
    "openings that do not end": ("```sql " * 400_000 + FENCED, "correct"),
    "backticks": ("`" * 3_000_000 + "sql\nSELECT a FROM t\n```", "correct"),
    "placeholders": ("```sql\n-- Your SQL query\n```" * 100_000 + FENCED, "correct"),
    "openings of placeholders": ("```sql\n\t -- Your " * 150_000 + FENCED, "correct"),
    "line ends": ("\r\n" * 1_500_000 + FENCED, "correct"),
    "unclosed at the end": (FENCED + "```sql\n" + "SELECT " * 500_000, "correct"),
    "NUL and surrogates": ("\x00\ud800" * 1_000_000 + FENCED, "correct"),
    "comments only": ("```sql\n" + "/**/" * 900_000 + "```", "no_answer"),
    "spaces only": ("```sql\n" + " \t" * 1_800_000 + "```", "no_answer"),
    "comments in the block": ("```sql\n" + "/**/" * 900_000 + "SELECT a FROM t\n```", "too_large"),
    "an open comment": ("```sql\n/*" + "*" * 3_000_000 + "\n```", "too_large"),
    "a long query": ("```sql\nSELECT a FROM t WHERE a " + "> = 0 AND a " * 300_000 + "\n```", "too_large"),
    "comment lines only": ("```sql\n" + "--\n" * 1_000_000 + "```", "no_answer"),
    "years": ("```sql\nSELECT " + "YEAR ( CURDATE ( " * 200_000 + "\n```", "too_large"),
}


@pytest.mark.parametrize(("response", "verdict"), MEGABYTES.values(), ids=MEGABYTES)
def test_a_response_of_megabytes_is_judged_in_seconds(fenced: SqlScorer, response: str, verdict: str) -> None:
    fenced.score([FENCED], [TRUTH])
    started = time.process_time()
    (found,) = fenced.score([response], [TRUTH])
    assert found.verdict == verdict, found.detail
    assert time.process_time() - started < 2
    assert found.extracted is None or len(found.extracted) <= MAX_LENGTH


ODD_NAMES = ["", "..", "d/../d", "/d", "/etc/passwd.sqlite", "d\0", "D", "d ", "d/x.sqlite", "d/d.sqlite-wal"]
ODD_NAMES += ["d/d.sqlite?mode=rwc", "d%2f..", "file:d/d.sqlite", ":memory:", "~/d", "d'--", "\ud800", "d" * 300]


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_an_odd_name_opens_no_other_file_and_is_named(scorer: SqlScorer, databases: Path, name: str) -> None:
    before = state(databases)
    with pytest.raises((ValueError, InfrastructureError), match=r"expected a name inside|is missing") as raised:
        scorer.score(["SELECT a FROM t"], [{**TRUTH, "db_id": name}])
    assert repr(name) in str(raised.value)
    assert state(databases) == before
    assert scorer.score(["SELECT a FROM t"], [TRUTH])[0].correct


def test_a_whole_group_of_hostile_statements_on_two_workers_changes_no_other_verdict(databases: Path) -> None:
    quick = [sql for sql, verdict in CORPUS if verdict != "timeout"]
    with SqlScorer(
        databases, answer="bare", workers=2, timeout_s=5, max_steps=2_000_000, max_rows=5000, max_bytes=2**20
    ) as pair:
        verdicts = pair.score(quick + ["SELECT a FROM t"] * 3, [TRUTH] * (len(quick) + 3))
    assert [v.verdict for v in verdicts[:-3]] == [verdict for _, verdict in CORPUS if verdict != "timeout"]
    assert all(v.correct for v in verdicts[-3:])
