"""A corpus of hostile SQL: each statement gets its verdict in time and memory, and leaves no trace."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.sandbox import MAX_LENGTH
from dphrl.scoring.verdict import InfrastructureError

TIMEOUT_S = 0.5
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
    "ATTACH DATABASE ':memory:' AS s",
    "ATTACH 'file:stolen.sqlite?mode=rwc' AS s",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'stolen.sqlite'",
    "VACUUM main INTO 'file:stolen.sqlite?mode=rwc'",
    "SELECT load_extension('libc.so.6')",
    "SELECT load_extension('libc.so.6', 'system')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    ".read /etc/passwd",
    ".shell touch stolen",
    ".output stolen",
    # Settings.
    "PRAGMA journal_mode=DELETE",
    "PRAGMA query_only=0",
    "PRAGMA writable_schema=1",
    "PRAGMA hard_heap_limit=0",
    "PRAGMA temp_store_directory='.'",
    "PRAGMA user_version=7",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA integrity_check",
    "pragma\ttable_info(t)",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT rtreecheck('main', 't')",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_function_list",
    "SELECT * FROM pragma_compile_options",
    "SELECT * FROM main.pragma_user_version",
    "SELECT a FROM t WHERE a IN (SELECT seq FROM pragma_index_list('t'))",
    # Writing.
    "INSERT INTO t VALUES (4, 'd')",
    "INSERT INTO t SELECT * FROM t",
    "INSERT INTO t VALUES (4, 'd') RETURNING a",
    "INSERT OR REPLACE INTO t VALUES (1, 'd')",
    "REPLACE INTO t VALUES (1, 'd')",
    "UPDATE t SET a = 0",
    "UPDATE t SET a = 0 RETURNING a",
    "DELETE FROM t",
    "DELETE FROM t RETURNING a",
    "WITH x AS (SELECT 9) INSERT INTO t SELECT 9, 'x' FROM x",
    "WITH x AS (SELECT 9) DELETE FROM t WHERE a IN (SELECT * FROM x)",
    "WITH x AS (SELECT 9) UPDATE t SET a = (SELECT * FROM x)",
    "WITH x AS (SELECT 9) REPLACE INTO t SELECT 1, 'x' FROM x",
    "CREATE TABLE u(a)",
    "CREATE TABLE u AS SELECT * FROM t",
    "CREATE TEMP TABLE u AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE INDEX i ON t(a)",
    "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE VIRTUAL TABLE f USING fts5(a)",
    "CREATE VIRTUAL TABLE temp.f USING rtree(a, b, c)",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS missing",
    "DROP INDEX i",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t ADD COLUMN z",
    "ALTER TABLE t DROP COLUMN b",
    "REINDEX",
    "ANALYZE",
    "DELETE FROM sqlite_master",
    "UPDATE sqlite_master SET sql = ''",
    # Transactions.
    "BEGIN",
    "BEGIN EXCLUSIVE",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    # More than one statement.
    "SELECT 1; DROP TABLE t",
    "SELECT a FROM t; SELECT a FROM t",
    "SELECT 1;;SELECT 2",
    "SELECT 1; -- quiet\nDELETE FROM t",
    "SELECT 1; /* quiet */ PRAGMA query_only=0",
    "BEGIN; DELETE FROM t; COMMIT",
    # Behind comments, white space and look-alikes.
    "-- SELECT\nDROP TABLE t",
    "/* SELECT */ DROP TABLE t",
    "/* SELECT 1 */--\n/**/DELETE FROM t",
    "\ufeffDROP TABLE t",
    "\uff33\uff25\uff2c\uff25\uff23\uff34 1",
    "\u202eSELECT 1",
    "\x00SELECT 1",
    ";SELECT 1",
    "(SELECT 1)",
    "VALUES (1), (2)",
    "SELECTED",
    "Here is the query: SELECT a FROM t",
    # Query plans.
    "EXPLAIN SELECT a FROM t",
    "EXPLAIN QUERY PLAN SELECT a FROM t",
    # Functions with another result each time, or with steps of seconds.
    "SELECT random()",
    "SELECT a FROM t ORDER BY RANDOM() LIMIT 1",
    "SELECT abs(random()) % 3 + 1 FROM t",
    "SELECT hex(randomblob(8))",
    "SELECT randomblob(1000000000)",
    "SELECT zeroblob(1000000000)",
    "SELECT length(zeroblob(1000000000))",
    'SELECT "zeroblob"(9), t.* FROM t',
    "SELECT changes(), total_changes(), last_insert_rowid()",
    "SELECT printf('%.*c', 900000000, 'x')",
    "SELECT PRINTF('%900000000d', 1)",
    "SELECT format('%.900000000f', 1.0)",
    "SELECT a FROM t WHERE printf('%d', a) = '1'",
    "SELECT " + repeated("printf('%50000000d', a)", 20) + " FROM t",
    f"{COUNT} SELECT format('%.*c', x, 'x') FROM c",
    # What would stay in the worker, for the answers after this one.
    "PRAGMA case_sensitive_like=1",
    "PRAGMA reverse_unordered_selects=1",
    "PRAGMA hard_heap_limit=1000",
    "PRAGMA cache_size=-999999999",
    "PRAGMA mmap_size=268435456",
    "PRAGMA threads=8",
    "PRAGMA shrink_memory",
    "PRAGMA optimize",
    "PRAGMA trusted_schema=1",
    "/* */ PRAGMA busy_timeout=1000000",
    "SELECT * FROM pragma_hard_heap_limit(1000)",
    "SELECT * FROM t, pragma_query_only(0)",
    "SELECT (SELECT * FROM pragma_journal_mode('delete')) FROM t",
    "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
    "BEGIN IMMEDIATE",
    "SAVEPOINT t; SELECT 1",
    "WITH x AS (SELECT 1) REPLACE INTO sqlite_master SELECT * FROM x",
    # Denied functions by another spelling or in another place.
    'SELECT "random"() FROM t',
    "SELECT [randomblob](9) FROM t",
    "SELECT `load_extension`('x') FROM t",
    "SELECT RaNdOm /* */ () FROM t",
    "SELECT max(a) FILTER (WHERE random()) FROM t",
    "SELECT sum(a) OVER (ORDER BY random()) FROM t",
    "SELECT a FROM t LIMIT random()",
    "SELECT json_array(zeroblob(9)) FROM t",
    "SELECT CASE WHEN 0 THEN random() END FROM t",
    # Of other databases.
    "TABLE t",
    "CALL f()",
    "COPY t TO 'stolen'",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
    "MERGE INTO t USING t ON 1 WHEN MATCHED THEN DELETE",
    "/*/ SELECT 1",
    "\u200bSELECT 1",
]

TIMEOUT = [
    # Endless recursion.
    f"{COUNT} SELECT max(x) FROM c",
    f"{COUNT} SELECT count(*) FROM c WHERE x < 0",
    f"{COUNT} SELECT x FROM c WHERE x < 0",
    f"{COUNT} SELECT 1 WHERE EXISTS (SELECT 1 FROM c WHERE x < 0)",
    f"{COUNT} SELECT a FROM t WHERE a NOT IN (SELECT x + 9 FROM c)",
    f"{COUNT} SELECT x FROM c LIMIT 1 OFFSET 900000000",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT (x + 1) % 900000000 FROM c) SELECT max(x) FROM c WHERE x < 0",
    "WITH RECURSIVE c(x, y) AS (SELECT 1, 1 UNION ALL SELECT y, (x + y) % 97 FROM c) SELECT sum(x) FROM c",
    f"{COUNT}, e(y) AS (SELECT max(x) FROM c) SELECT y FROM e",
    f"{COUNT} SELECT x FROM c WHERE x IN (SELECT -x FROM c)",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c ORDER BY 1) SELECT sum(x) FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT substr(x || 'a', 1, 50) FROM c) SELECT min(x) FROM c",
    "SELECT (WITH RECURSIVE e(y) AS (SELECT a UNION ALL SELECT y + 1 FROM e) SELECT max(y) FROM e) FROM t",
    # Cross joins.
    f"{FEW} SELECT count(*) FROM c p, c q, c r, c s, c u, c v",
    f"{FEW} SELECT sum(p.x * q.x) FROM c p CROSS JOIN c q",
    f"{FEW} SELECT count(*) FROM c p JOIN c q ON p.x <> q.x JOIN c r ON r.x <> q.x",
    f"{FEW} SELECT max(p.x) FROM c p LEFT JOIN c q ON p.x + q.x < 0",
    f"{FEW} SELECT count(*) FROM c p WHERE (SELECT count(*) FROM c q WHERE q.x <> p.x) < 0",
    f"{FEW} SELECT p.x FROM c p, c q WHERE p.x + q.x < 0",
    f"SELECT count(*) FROM {', '.join(f't x{i}' for i in range(20))}",
    f"{TEN} SELECT count(*) FROM {', '.join(f'd x{i}' for i in range(9))}",
    f"{TEN} SELECT DISTINCT x0.x FROM {', '.join(f'd x{i}' for i in range(12))} WHERE x0.x + x11.x < 0",
    f"{FEW} SELECT count(*) FROM c p, c q WHERE p.x LIKE '%' || q.x || '%'",
    # Windows and sorts.
    f"{FEW} SELECT sum(y) FROM (SELECT max(x) OVER (ORDER BY x ROWS 9999 PRECEDING EXCLUDE CURRENT ROW) AS y FROM c)",
    f"{FEW} SELECT sum(y) FROM (SELECT avg(x) OVER (ORDER BY x % 9 GROUPS 5 PRECEDING EXCLUDE TIES) AS y FROM c)",
    f"{FEW} SELECT sum(y) FROM (SELECT count(*) OVER (ORDER BY p.x, q.x) AS y FROM c p, c q)",
    f"{FEW} SELECT p.x FROM c p, c q ORDER BY q.x, p.x LIMIT 1",
    f"{FEW} SELECT DISTINCT p.x + q.x FROM c p, c q ORDER BY 1 LIMIT 1",
    f"{FEW} SELECT p.x FROM c p, c q GROUP BY p.x * q.x HAVING count(*) < 0",
    f"{FEW} SELECT x FROM c INTERSECT SELECT p.x * q.x FROM c p, c q",
    # Endless where a query is seldom written.
    f"{COUNT} SELECT a FROM t LIMIT (SELECT max(x) FROM c)",
    f"{COUNT} SELECT count(*) FILTER (WHERE a IN (SELECT -x FROM c)) FROM t",
    f"{COUNT} SELECT sum(a) OVER (ORDER BY (SELECT max(x) FROM c)) FROM t",
    f"{COUNT} SELECT b LIKE 'a' ESCAPE (SELECT max(x) FROM c) FROM t",
    f"{COUNT} SELECT value FROM json_each((SELECT json_array(max(x)) FROM c))",
    f"{COUNT} SELECT a FROM t GROUP BY a HAVING max(a) > (SELECT max(x) FROM c)",
    f"{COUNT}, m AS MATERIALIZED (SELECT x FROM c) SELECT 1 FROM m WHERE x < 0",
    f"{COUNT} SELECT 1 FROM t LEFT JOIN c ON c.x < 0 WHERE c.x IS NOT NULL",
    f"{COUNT} SELECT group_concat('') FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT -1) SELECT max(x) FROM c",
    f"{FEW} SELECT count(DISTINCT p.x * 20000 + q.x) FROM c p, c q",
    f"{FEW} SELECT max(p.x || q.x) FROM c p, c q WHERE p.x || q.x GLOB '*a*'",
    # Seconds between two checks of the clock: many searches of a long text, each one step.
    f"SELECT {repeated('instr(h || h, h || a)', 250)} FROM t, (SELECT '{'a' * 45_000}' AS h)",
    f"SELECT {repeated('replace(h || h, h || a, 1) = 1', 250, ' OR ')} FROM t, (SELECT '{'a' * 45_000}' AS h)",
    f"{FEW} SELECT sum(instr(h || h, h || x)) FROM c, (SELECT '{'a' * 45_000}' AS h)",
]

TOO_LARGE = [
    f"{COUNT} SELECT x FROM c",
    f"{COUNT} SELECT x, x, x FROM c",
    f"{FEW} SELECT p.x FROM c p, c q",
    f"{FEW} SELECT {LONG} FROM c, t",
    f"SELECT {repeated(LONG, 50)} FROM t",
    f"{FEW} SELECT {repeated(long_text(4), 200)} FROM t, c",
    f"SELECT {long_text(6)} FROM t",
    f"SELECT length({long_text(6)}) FROM t",
    f"SELECT length({repeated(LONG, 9, ' || ')}) FROM t",
    f"{FEW} SELECT length(group_concat(x)) FROM c",
    f"{FEW} SELECT length(group_concat('xxxxxxxxxxxxxxxx', 'yyyyyyyyyyyyyyyyy')) FROM c",
    f"{FEW} SELECT length(json_group_array(x)) FROM c",
    f"{FEW} SELECT length(json_group_object(x, x)) FROM c",
    f"SELECT json_array({repeated(LONG, 9)}) FROM t",
    f"SELECT length(hex({LONG})) + length(hex({LONG} || {LONG})) FROM t",
    f"SELECT quote(CAST({LONG} || {LONG} AS BLOB)) FROM t",
    f"SELECT replace({LONG}, 'a', {LONG}) FROM t",
    "WITH RECURSIVE c(x) AS (SELECT 'aaaaaaaaaa' UNION ALL SELECT x || x FROM c) SELECT max(length(x)) FROM c",
    "SELECT '" + "x" * 100_001 + "'",
    "SELECT 1 -- " + "x" * 10_000_000,
    "SELECT '" + "\U0001f4a3" * 2_000_000 + "'",
    "SELECT a FROM t WHERE a IN (" + ",".join(map(str, range(100_000))) + ")",
    "SELECT " + " " * 10_000_000 + "1",
    "SELECT " + "(" * 5_000_000,
    "SELECT x'" + "00" * 99_000 + "'",
    "SELECT strftime('" + "%f" * 20_000 + "', 'now')",
]

UNPARSED = [
    "SELECT '\x00'",
    "SELECT a FROM t WHERE b = 'x\x00y'",
    "SELECT '\ud800'",
    "SELECT \udfff FROM t",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "(" * 50_000,
    "SELECT " + "+".join(["1"] * 5000),
    "SELECT " + "NOT " * 20_000 + "1",
    "SELECT " + "~" * 50_000 + "1",
    "SELECT " + "CASE WHEN 1 THEN " * 2000 + "1" + " END" * 2000,
    "SELECT * FROM (" * 3000 + "SELECT 1" + ")" * 3000,
    "SELECT " + "(SELECT " * 3000 + "1" + ")" * 3000,
    "SELECT " + "abs(" * 4000 + "1" + ")" * 4000,
    "SELECT 1 WHERE " + "1 AND " * 9000 + "1",
    "SELECT a FROM t WHERE",
    "SELECT 'unclosed",
    "SELECT /* unclosed",
    "SELECT 1 UNION",
    "SELECT ?, :name, @name, $name",
    "SELECT a INTO OUTFILE 'stolen' FROM t",
    "SELECT \x1b[31m1",
    "SELECT a\u037e DROP TABLE t",
    "SELECT writefile('stolen', 'x'",
    # Deeper than SQLite's parser goes; sqlglot must not see them.
    nested("date(", "1", ")", 80),
    nested("coalesce(1, ", "1", ")", 30),
    nested("(SELECT ", "max(a) AS x FROM t", " AS x)", 19),
    nested("(SELECT max(x) FROM (SELECT ", "1 AS x", ") AS x)", 10),
    nested("CASE WHEN 1 THEN ", "1", " END", 40),
    nested("EXISTS (SELECT ", "1", ")", 30),
    nested("1 IN (", "1", ")", 40),
    nested("{'a': ", "1", "}", 20),
    nested("array[", "1", "]", 20),
    "SELECT * FROM " + "(SELECT * FROM " * 30 + "t" + ")" * 30,
    "SELECT a FROM t WHERE a = " + "(SELECT max(a) FROM t WHERE a = " * 20 + "1" + ")" * 20,
    # Texts that look like something else.
    "SELECT\u200b1",
    "SELECT 1\uff1b DROP TABLE t",
    "SELECT a FROM t WHERE a \uff1d 1",
    "SELECT 1 # DROP TABLE t",
    "SELECT x'0'",
    "SELECT 1_000",
    "SELECT @@version",
    "SELECT a FROM t FOR UPDATE",
    "SELECT NULL IS NOT",
]

FAILING = [
    "SELECT writefile('stolen', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x', 'touch stolen')",
    "SELECT shell_exec('touch stolen')",
    "SELECT * FROM fsdir('.')",
    "SELECT * FROM generate_series(1, 900000000)",
    "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM dbstat",
    "SELECT * FROM sqlite_stmt",
    "SELECT * FROM fts3tokenize('simple', 'a b')",
    "SELECT * FROM csv('/etc/passwd')",
    "SELECT 'a' REGEXP '(a+)+$'",
    "SELECT a FROM other.t",
    "SELECT a FROM temp.t",
    "SELECT json('{')",
    "SELECT json('" + "[" * 50_000 + "')",
    "SELECT json_extract('{}', '$[')",
    'SELECT t."file is not a database" FROM t',
    'SELECT t."database disk image is malformed" FROM t',
    'SELECT t."unable to open database file" FROM t',
    'SELECT t."database is locked, disk I/O error" FROM t',
    'SELECT t."interrupted" FROM t',
    'SELECT t."not authorized" FROM t',
    "SELECT " + ", ".join(["1"] * 20_000),
    " UNION ALL ".join(["SELECT 1"] * 5000),
    "SELECT count(*) FROM " + ", ".join(f"t x{i}" for i in range(100)),
    "SELECT max(" + ", ".join(["1"] * 5000) + ")",
    "SELECT a FROM t WHERE a LIKE '" + "%a" * 40_000 + "'",
    "SELECT a FROM t WHERE b GLOB '" + "*a" * 40_000 + "'",
    "SELECT abs(-9223372036854775808)",
    "SELECT sum(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)",
    "SELECT row_number() FROM t",
    "SELECT ?1000000",
    "WITH RECURSIVE c AS (SELECT * FROM c) SELECT * FROM c",
    "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a",
    "SELECT a FROM t LIMIT 'x'",
    "SELECT bm25(t), highlight(t, 0, '', '') FROM t",
    "SELECT matchinfo(t) FROM t",
    "SELECT a FROM t WHERE t MATCH 'x'",
    "SELECT load_file('/etc/passwd')",
    "SELECT sleep(100)",
    "SELECT pg_sleep(100)",
    # SQLite's own and other programs' functions and tables.
    "SELECT sqlite_rename_table('main', '', '', 't', 'u', 0)",
    "SELECT sqlite_drop_column(0, 't', 0)",
    "SELECT sqlite_add_constraint('t', '', 0)",
    "SELECT eval('DROP TABLE t')",
    "SELECT define('f', 'x')",
    "SELECT zipfile('a', 'b')",
    "SELECT likelihood(a, 2) FROM t",
    "SELECT * FROM pragma_case_sensitive_like(1)",
    "SELECT * FROM abs(1)",
    "SELECT * FROM sqlite_sequence",
    "SELECT * FROM information_schema.tables",
    "SELECT raise(ABORT, 'x')",
    # Arguments out of range.
    "SELECT ntile(0) OVER () FROM t",
    "SELECT nth_value(a, 0) OVER () FROM t",
    "SELECT sum(a) OVER (ORDER BY a ROWS -1 PRECEDING) FROM t",
    "SELECT sum(a) OVER (ROWS BETWEEN 1e400 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT b LIKE 'a' ESCAPE 'ab' FROM t",
    "SELECT 0x10000000000000000",
    "SELECT json_object('a', x'00')",
    "SELECT a FROM t, json_each('[1]', a)",
    "WITH x AS (VALUES (1), (2, 3)) SELECT * FROM x",
    # Deep, but not for SQLite's parser.
    nested("struct(", "1", ")", 20),
    nested("count(*) FILTER (WHERE ", "1", ")", 9),
    nested("sum(", "1", ") OVER ()", 9),
    "SELECT 1 FROM " + "(t JOIN " * 15 + "t" + ")" * 15,
]

WRONG = [
    "SELECT * FROM sqlite_master",
    "SELECT sql FROM main.sqlite_schema",
    "SELECT * FROM sqlite_temp_master",
    "SELECT sqlite_version(), sqlite_source_id()",
    "SELECT sqlite_compileoption_get(0)",
    "SELECT sqlite_log(1, 'x')",
    "SELECT date('now'), time('now'), datetime('now')",
    "SELECT CURRENT_TIMESTAMP, CURRENT_DATE, CURRENT_TIME",
    "SELECT julianday('now'), strftime('%s', 'now'), unixepoch()",
    "SELECT 9e999, -9e999, 0.0 / 0.0, 9223372036854775807 + 1",
    "SELECT CAST(x'ff00fe' AS TEXT), CAST(x'eda080' AS TEXT), x'00'",
    "SELECT char(0, 55296, 1114111, 1114112, -1)",
    "SELECT b || char(0) FROM t",
    "SELECT a FROM t WHERE '" + "a" * 4000 + "' LIKE '" + "%a" * 40 + "%b'",
    "SELECT a FROM t WHERE '" + "a" * 4000 + "' GLOB '" + "*a" * 40 + "*b'",
    "SELECT a FROM t WHERE a IN (" + ",".join(map(str, range(9, 15_000))) + ")",
    "SELECT " + ", ".join(["1"] * 2000),
    " UNION ALL ".join(["SELECT 1"] * 400),
    "SELECT value FROM json_each('[1, 2]')",
    "SELECT 1 -- '; DROP TABLE t",
    "SELECT '-- ; DROP TABLE t'",
    "SELECT 1;",
    "\u00a0\u2003SELECT 1",
    "SELECT 1; -- nothing more",
    "/* DROP TABLE t */ SELECT 1",
    "SELECT/**/1",
    'SELECT "DROP TABLE t"',
    "SELECT trim(" + long_text(4) + ", 'abcdefghij') FROM t",
    f"{FEW} SELECT count(*) FROM (SELECT x FROM c ORDER BY -x)",
    "SELECT round(1e308 * 10, 400)",
    "SELECT substr(b, -9223372036854775807, 9223372036854775807) FROM t",
    "SELECT a FROM t LIMIT -1 OFFSET 9223372036854775807",
    "SELECT a FROM t GROUP BY a HAVING 0",
    "SELECT NULL FROM t WHERE NULL",
    "SELECT json('" + "[" * 900 + "]" * 900 + "')",
    # SQLite runs these at once; sqlglot would take up to exponential time to class them.
    nested("date(", "'2020-01-01'", ")", 25),
    nested("date(cast(", "1", " AS text))", 15),
    nested("char(", "65", ")", 30),
    nested("json(", "'{}'", ")", 30),
    nested("cast(", "1", " AS int)", 40),
    nested("(SELECT ", "max(a) AS x FROM t", " AS x)", 12),
    nested("(", "1", ")", 45),
    nested("CASE ", "1", " WHEN 1 THEN 1 END", 40),
    nested("NOT (", "1", ")", 45),
    nested("1 BETWEEN (", "1", ") AND 2", 30),
    nested("- ", "1", "", 90),
    "SELECT 1 FROM " + "(" * 30 + "t" + ")" * 30,
    "SELECT '{}' " + "-> 'a' " * 900,
    "SELECT 'a' " + "COLLATE nocase " * 900,
    "SELECT 1 " + "IS NULL " * 900,
    # Odd values.
    "SELECT 0x8000000000000000, -0x1, 0xffffffffffffffff",
    "SELECT -9223372036854775808 / -1, 1 << 64, 1 >> -9223372036854775808, 5 % 0",
    "SELECT CAST('1e99999' AS INTEGER), CAST('" + "9" * 9000 + "' AS INTEGER)",
    "SELECT lag(a, 9223372036854775807) OVER () FROM t",
    "SELECT date('now', '+99999999999 years'), date(9e999), time('24:61')",
    "SELECT json_patch('" + '{"a":' * 900 + "1" + "}" * 900 + "', '{}')",
    "SELECT json_set('{}', '$.a" + ".a" * 900 + "', 1)",
    "SELECT count(*) FROM json_tree('" + "[" * 900 + "]" * 900 + "')",
    "SELECT '{}' ->> '$" + "[0]" * 5000 + "'",
    "SELECT rtreenode(2, x'00'), rtreedepth(x'0000') FROM t",
    "SELECT * FROM json_each",
    "SELECT 1 \u037e",
    "SELECT 1 --\r; DROP TABLE t",
    "/**/ /* /* */ SELECT 1",
    "WITH/**/x AS(SELECT 1)SELECT*FROM x",
    "SELECT '\\' OR 1=1 --'",
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
    folder = tmp_path_factory.mktemp("databases")
    (folder / "d").mkdir()
    with sqlite3.connect(folder / "d" / "d.sqlite") as connection:
        connection.executescript(
            "create table t(a integer, b text); insert into t values (1, 'abcdefghij'), (2, 'b'), (3, 'c');"
        )
    return folder


@pytest.fixture(scope="module")
def scorer(databases: Path) -> Iterator[SqlScorer]:
    before = contents(databases)
    limits = {"max_steps": 2_000_000, "max_rows": 5000, "max_bytes": 2**20}
    with SqlScorer(databases, timeout_s=TIMEOUT_S, **limits) as scorer:
        yield scorer
    assert contents(databases) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    scorer.score_sql(["SELECT 1"], [TRUTH])
    start = time.monotonic()
    found, after = scorer.score_sql([sql, "SELECT a FROM t WHERE a"], [TRUTH, TRUTH])
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
    with SqlScorer(databases) as scorer, ThreadPoolExecutor() as executor:
        scored = executor.submit(scorer.score_sql, [sql, "SELECT a FROM t"], [TRUTH, TRUTH])
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
    "line ends": ("\r\n" * 1_500_000 + FENCED, "correct"),
    "unclosed at the end": (FENCED + "```sql\n" + "SELECT " * 500_000, "correct"),
    "NUL and surrogates": ("\x00\ud800" * 1_000_000 + FENCED, "correct"),
    "comments only": ("```sql\n" + "/**/" * 900_000 + "```", "no_answer"),
    "spaces only": ("```sql\n" + " \t" * 1_800_000 + "```", "no_answer"),
    "comments in the block": ("```sql\n" + "/**/" * 900_000 + "SELECT a FROM t\n```", "too_large"),
    "an open comment": ("```sql\n/*" + "*" * 3_000_000 + "\n```", "too_large"),
    "a long query": ("```sql\nSELECT a FROM t WHERE a " + "> = 0 AND a " * 300_000 + "\n```", "too_large"),
    "years": ("```sql\nSELECT " + "YEAR ( CURDATE ( " * 200_000 + "\n```", "too_large"),
    "far over the limit": ("/**/" * 5_000_000, "too_large"),
}


@pytest.mark.parametrize(("response", "verdict"), MEGABYTES.values(), ids=MEGABYTES)
def test_a_response_of_megabytes_is_judged_in_seconds(scorer: SqlScorer, response: str, verdict: str) -> None:
    scorer.score_sql(["SELECT 1"], [TRUTH])
    started = time.process_time()
    (found,) = scorer.score([response], [TRUTH])
    assert found.verdict == verdict, found.detail
    assert time.process_time() - started < 2
    assert found.extracted is None or len(found.extracted) <= MAX_LENGTH


ODD_NAMES = ["", "..", "d/../d", "/d", "/etc/passwd.sqlite", "d\0", "D", "d ", "d/x.sqlite", "d/d.sqlite-wal"]
ODD_NAMES += ["d/d.sqlite?mode=rwc", "d%2f..", "file:d/d.sqlite", ":memory:", "~/d", "d'--", "\ud800", "d" * 300]


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_an_odd_name_opens_no_other_file_and_is_named(scorer: SqlScorer, databases: Path, name: str) -> None:
    before = state(databases)
    with pytest.raises((ValueError, InfrastructureError), match=r"expected a name inside|is missing") as raised:
        scorer.score_sql(["SELECT a FROM t"], [{**TRUTH, "db_id": name}])
    assert repr(name) in str(raised.value)
    assert state(databases) == before
    assert scorer.score_sql(["SELECT a FROM t"], [TRUTH])[0].correct


@pytest.mark.parametrize("name", [None, 7, ["d"]])
def test_a_name_that_is_no_text_is_an_error_of_the_data(scorer: SqlScorer, name: object) -> None:
    with pytest.raises(ValueError, match="ground truth 0: expected strings under db_id and gold_sql"):
        scorer.score_sql(["SELECT a FROM t"], [{**TRUTH, "db_id": name}])


def test_a_whole_group_of_hostile_statements_on_two_workers_changes_no_other_verdict(
    databases: Path,
) -> None:
    quick = [sql for sql, verdict in CORPUS if verdict != "timeout"]
    with SqlScorer(databases, workers=2, timeout_s=5, max_steps=2_000_000, max_rows=5000, max_bytes=2**20) as pair:
        verdicts = pair.score_sql(quick + ["SELECT a FROM t"] * 3, [TRUTH] * (len(quick) + 3))
    assert [v.verdict for v in verdicts[:-3]] == [verdict for _, verdict in CORPUS if verdict != "timeout"]
    assert all(v.correct for v in verdicts[-3:])
