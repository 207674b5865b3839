"""SQL programs: which spellings are one program, which golds order their rows, and what hostile queries cost."""

import contextlib
import itertools
import time

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from dphrl.scoring.sql.compare import gold_orders
from dphrl.scoring.sql.handler import within
from dphrl.scoring.sql.program import (
    MAX_PROGRAM_CHARACTERS,
    MAX_PROGRAM_DEPTH,
    program_class,
)
from dphrl.scoring.sql.row_order import rewrites
from dphrl.toy.questions import STYLES, Question, write_in_style

ONE_PROGRAM = {
    "layout, comments, case of names": [
        "SELECT T.Name FROM product AS T WHERE T.price > 3 -- dear",
        'select t."name"\nfrom PRODUCT t /* all */ where t.price>3;',
    ],
    "names of table aliases": [
        "SELECT T1.a FROM t AS T1 JOIN u AS T2 ON T1.id = T2.id WHERE T2.b = 'x'",
        "SELECT x.a FROM t x JOIN u y ON x.id = y.id WHERE y.b = 'x'",
        "SELECT t.a FROM t JOIN u ON t.id = u.id WHERE u.b = 'x'",
    ],
    "order of inner joins and place of their conditions": [
        "SELECT T1.a FROM t AS T1 JOIN u AS T2 ON T1.id = T2.id JOIN v AS T3 ON T2.k = T3.k WHERE T3.b > 1",
        "SELECT T3.a FROM v AS T1 INNER JOIN u AS T2 ON T1.k = T2.k JOIN t AS T3 ON T2.id = T3.id WHERE T1.b > 1",
        "SELECT t.a FROM u, v, t WHERE v.b > 1 AND u.id = t.id AND u.k = v.k",
    ],
    "qualifiers of the only table": ["SELECT a FROM t WHERE b = 1", "SELECT T1.a FROM t AS T1 WHERE T1.b = 1"],
    "names of output columns": [
        "SELECT a, count(*) FROM t GROUP BY a ORDER BY count(*) DESC",
        "SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY n DESC",
    ],
    "names of common table expressions": [
        "WITH s AS (SELECT a FROM t) SELECT a FROM s",
        "WITH t9 AS (SELECT a FROM t) SELECT x.a FROM t9 AS x",
    ],
    "aliases in subqueries": [
        "SELECT a FROM t AS x WHERE b = (SELECT max(y.b) AS m FROM t AS y WHERE y.k = x.k)",
        "SELECT a FROM t AS t1 WHERE b = (SELECT max(t2.b) FROM t AS t2 WHERE t2.k = t1.k)",
    ],
    "operators and literals": [
        "SELECT a FROM t WHERE b != 1 AND c == 2.50 AND d = 07",
        "SELECT a FROM t WHERE b <> 1 AND c = 2.5 AND d = 7",
        "SELECT a FROM t WHERE b != 1 AND c = 25e-1 AND d = 7",
    ],
    "order of AND and OR, parentheses": [
        "SELECT a FROM t WHERE b = 1 AND (c = 2 OR d = 3) AND e IS NULL",
        "SELECT a FROM t WHERE ((e IS NULL)) AND (((d = 3) OR 2 = c) AND b = 1)",
    ],
}

DIFFERENT_PROGRAMS = [
    "SELECT a FROM t",
    "SELECT b FROM t",
    "SELECT DISTINCT a FROM t",
    "SELECT a, b FROM t",
    "SELECT * FROM t",
    "SELECT a FROM t WHERE b = 'x'",
    "SELECT a FROM t WHERE b = x",
    'SELECT a FROM t WHERE b = "x"',
    "SELECT a FROM t WHERE b = 1",
    "SELECT a FROM t WHERE b = 1.0",
    "SELECT a FROM t WHERE b = '1'",
    "SELECT a FROM t WHERE b IS 1",
    "SELECT a FROM t WHERE b > 1",
    "SELECT a FROM t WHERE b LIKE 'x'",
    "SELECT a FROM t WHERE b LIKE 'x' ESCAPE 'y'",
    "SELECT a FROM t WHERE b BETWEEN 1 AND 2",
    "SELECT a FROM t WHERE b = 1 AND c = 2 OR d = 3",
    "SELECT a FROM t WHERE b = 1 AND (c = 2 OR d = 3)",
    "SELECT a FROM t WHERE NOT (b = 1 AND c = 2)",
    "SELECT a FROM t WHERE NOT b = 1 AND c = 2",
    "SELECT a - (b - c) FROM t",
    "SELECT a - b - c FROM t",
    "SELECT a || b FROM t",
    "SELECT 1 / 2 FROM t",
    "SELECT 1.0 / 2 FROM t",
    "SELECT CAST(a AS INTEGER) FROM t",
    "SELECT CAST(a AS TEXT) FROM t",
    "SELECT count(a) FROM t",
    "SELECT count(*) FROM t",
    "SELECT count(DISTINCT a) FROM t",
    "SELECT sum(a) FROM t",
    "SELECT strftime('%Y', a) FROM t",
    "SELECT strftime('%M', a) FROM t",
    "SELECT group_concat(a, ',') FROM t",
    "SELECT x'41' FROM t",
    "SELECT '41' FROM t",
    "SELECT a FROM t ORDER BY a",
    "SELECT a FROM t ORDER BY a DESC",
    "SELECT a FROM t ORDER BY a NULLS LAST",
    "SELECT a FROM t ORDER BY a LIMIT 1",
    "SELECT a FROM t UNION SELECT a FROM u",
    "SELECT a FROM t EXCEPT SELECT a FROM u",
    "SELECT a FROM u EXCEPT SELECT a FROM t",
    "SELECT a, b FROM t UNION SELECT a AS x, b FROM u ORDER BY x",
    "SELECT a, b FROM t UNION SELECT a, b AS x FROM u ORDER BY x",
    "SELECT t.a FROM t JOIN u ON t.id = u.id",
    "SELECT t.a FROM t JOIN u ON t.id = u.k",
    "SELECT * FROM t JOIN u ON t.id = u.id",
    "SELECT * FROM u JOIN t ON t.id = u.id",
    "SELECT t.a FROM t LEFT JOIN u ON t.id = u.id",
    "SELECT t.a FROM u LEFT JOIN t ON t.id = u.id",
    "SELECT t.a FROM t LEFT JOIN u ON t.id = u.id AND u.b = 1",
    "SELECT t.a FROM t LEFT JOIN u ON t.id = u.id WHERE u.b = 1",
    "SELECT t.a FROM t JOIN u USING (id)",
    "SELECT x.a FROM t x JOIN t y ON x.id = y.boss",
    "SELECT y.a FROM t x JOIN t y ON x.id = y.boss",
    "WITH s AS (SELECT a FROM t) SELECT a FROM s",
    "SELECT a FROM (SELECT a FROM t)",
    "SELECT a FROM t WHERE b IN (SELECT b FROM u WHERE u.c = t.c)",
    "SELECT a FROM t WHERE b IN (SELECT b FROM u WHERE u.c = u.d)",
    "SELECT max(a) AS b FROM t GROUP BY b",
    "SELECT max(a) FROM t GROUP BY b",
    "SELECT max(a) AS b FROM t ORDER BY t.b",
    "SELECT max(a) AS b FROM t ORDER BY b",
]


@pytest.mark.parametrize("spellings", ONE_PROGRAM.values(), ids=ONE_PROGRAM)
def test_spellings_of_one_program_share_a_class(spellings: list[str]) -> None:
    assert None not in map(program_class, spellings)
    assert len(set(map(program_class, spellings))) == 1


def test_different_programs_have_different_classes() -> None:
    classes = {sql: program_class(sql) for sql in DIFFERENT_PROGRAMS}
    assert None not in classes.values()
    assert not [pair for pair in itertools.combinations(classes, 2) if classes[pair[0]] == classes[pair[1]]]


@pytest.mark.parametrize(
    "sql",
    [
        # sqlglot cannot read these.
        "SELECT FROM WHERE",
        "SELECT 1; SELECT 2",
        "DELETE FROM t",
        "",
        "SELECT " + "(" * 4000,
        "SELECT '" + "x" * 10_000,
        # SQLite cannot.
        "SELECT t.a FROM t LEFT INNER JOIN u ON t.a = u.a",
        "SELECT t.a FROM t LIMIT 1 JOIN u ON t.a = u.a",
        "SELECT a FROM t ORDER BY a INTERSECT SELECT b FROM u",
        "SELECT a FROM t WHERE b > = 1",
        # SQLite reads these otherwise.
        "SELECT mod(x, 2) FROM t",
        "SELECT 2 BETWEEN 0 AND 3 < 3",
        "SELECT 2 NOT BETWEEN 0 AND 3 > 3",
        "SELECT name FROM s WHERE score = 9 IN (1, 2)",
        "SELECT 1.5 <= -1 NOT GLOB 2",
        "SELECT a FROM t WHERE +a = '2'",
        # Their sources have no names.
        "SELECT value FROM json_each('[1]')",
        "SELECT 1 FROM t JOIN (u JOIN v)",
    ],
)
def test_what_the_two_parsers_do_not_read_alike_has_no_class(sql: str) -> None:
    assert program_class(sql) is None


@pytest.mark.parametrize(("written", "read"), [("string", "text"), ("str", "text"), ("varbinary", "blob")])
def test_a_cast_whose_affinity_sqlglot_changes_has_no_class(written: str, read: str) -> None:
    classes = [program_class(f"SELECT cast(a as {kind}), cast(b as real) FROM t") for kind in (written, read)]
    assert classes[0] is None
    assert classes[1] is not None
    assert program_class("SELECT cast(a as varchar(9)) FROM t") == program_class("SELECT CAST(a AS VARCHAR(9)) FROM t")


def test_a_written_out_tree_is_the_same_program() -> None:
    for sql in [*DIFFERENT_PROGRAMS, *itertools.chain(*ONE_PROGRAM.values())]:
        assert program_class(sqlglot.transpile(sql, read="sqlite", write="sqlite")[0]) == program_class(sql), sql


@given(st.permutations(["t", "u", "v"]), st.permutations(["t.a = u.a", "v.b = u.b", "t.c > 1", "v.d = 'x'"]))
def test_no_order_of_tables_and_conditions_matters(tables: list[str], conditions: list[str]) -> None:
    sql = f"SELECT t.e FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}"
    joined = "SELECT t.e FROM t JOIN u ON t.a = u.a JOIN v ON u.b = v.b WHERE t.c > 1 AND v.d = 'x'"
    assert program_class(sql) == program_class(joined)


def test_the_styles_of_the_toy_are_three_programs() -> None:
    """Two styles differ from the plain one by a comment or by case only."""
    question = Question("shop", "group", "parent", "", "number")
    classes = {style: program_class(write_in_style(question, style)) for style in STYLES}
    assert classes["plain"] == classes["plan"] == classes["lower"]
    assert len(set(classes.values()) - {None}) == 3


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT n FROM c -- three",
        "/* rows */ SELECT name FROM temp.sqlite_master WHERE name IN (SELECT lost(a) FROM gone)",
        "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM main.t NATURAL JOIN u",
        "SELECT t.a FROM t JOIN u ON t.a = u.a LIMIT 1",
        "SELECT a FROM t INTERSECT SELECT b FROM u ORDER BY a",
        "SELECT x % 2, 1.5e+3, '+' FROM t -- +",
    ],
)
def test_what_sqlite_reads_has_a_class_whatever_the_names_are(sql: str) -> None:
    assert program_class(sql) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 4900 + "1" + ")" * 4900,
        "SELECT 1 WHERE " + "(a AND (b OR " * 300 + "1" + "))" * 300,
        "SELECT " + "1 + " * 2400 + "1",
        "SELECT * FROM (" * 200 + "SELECT 1" + ")" * 200,
        "SELECT a AS b FROM t WHERE b IN (" * 150 + "SELECT 1" + ")" * 150,
        "SELECT 1 FROM " + "(" * 300 + "t" + " JOIN u)" * 300,
        "WITH " + ", ".join(f"c{i} AS (SELECT 1)" for i in range(400)) + " SELECT 1",
        "SELECT " + ", ".join(f"{i} AS a{i}" for i in range(700)) + " FROM t ORDER BY a1 + a2",
        "SELECT " + "9" * 9000,
        "SELECT '\ud800\x00'",
    ],
    ids=range(10),
)
def test_hostile_queries_are_classed_or_given_up_in_a_second(sql: str) -> None:
    assert len(sql) <= MAX_PROGRAM_CHARACTERS
    started = time.process_time()
    program_class(sql)
    gold_orders(sql, "strict")
    assert time.process_time() - started < 1


def nested(before: str, middle: str, after: str, depth: int) -> str:
    return "SELECT " + before * depth + middle + after * depth


# sqlglot, or a form of each alias twice, takes exponential time on these; SQLite runs the first two in no time.
NESTED = {
    "dates": ("date(", "'2020-01-01'", ")"),
    "pairs of dates": ("date('2020-01-01', date(", "1", "))"),
    "aliases": ("(SELECT ", "a FROM t", " AS x)"),
    "structs": ("struct(", "1", ")"),
    "dates in structs": ("date(struct(", "1", "))"),
    "names under ORDER BY": ("(SELECT ", "1", " AS x ORDER BY x, x, x)"),
    "casts": ("date(cast(", "1", " AS date))"),
    "subqueries": ("date((SELECT ", "1", "))"),
}


@pytest.mark.parametrize("depth", [3, 10, 25])
@pytest.mark.parametrize("parts", NESTED.values(), ids=NESTED)
def test_nested_queries_are_classed_or_given_up_in_half_a_second(parts: tuple[str, str, str], depth: int) -> None:
    sql = nested(*parts, depth)
    rewrites("SELECT a FROM t ORDER BY a", 1)  # so that no first use of the library counts
    started = time.process_time()
    if depth * parts[0].count("(") > MAX_PROGRAM_DEPTH:
        assert program_class(sql) is None
    else:
        assert program_class(sql) is not None
    rewrites(sql, 1)
    gold_orders(sql, "strict")
    assert time.process_time() - started < 0.5


def test_depth_is_that_of_the_parentheses_which_the_parser_sees() -> None:
    fitting, over = (
        "SELECT " + "(" * depth + "1" + ")" * depth for depth in (MAX_PROGRAM_DEPTH, MAX_PROGRAM_DEPTH + 1)
    )
    assert program_class(fitting) == program_class("SELECT 1")
    assert program_class(over) is None
    assert program_class(over.replace("(", "/*)*/(").replace("1", "')'")) is None
    assert program_class("SELECT '" + "(" * 50 + "' /* " + "(" * 50 + ' */ AS "' + "(" * 50 + '"') is not None


def test_a_call_that_takes_too_long_is_given_up_and_another_is_not() -> None:
    def endless() -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    started = time.process_time()
    assert within(0.05, endless) is None
    assert within(0.05, lambda: 7) == 7
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("gold", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a LIMIT 3", True),
        ("SELECT a FROM t UNION SELECT b FROM t ORDER BY 1", True),
        ("SELECT a FROM t EXCEPT SELECT b FROM t INTERSECT SELECT c FROM t ORDER BY 1", True),
        ("WITH s AS (SELECT a FROM t) SELECT a FROM s ORDER BY a", True),
        ("WITH s AS (SELECT a FROM t ORDER BY a LIMIT 3) SELECT a FROM s", False),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 3)", False),
        ("SELECT a FROM t WHERE b = (SELECT b FROM t ORDER BY b LIMIT 1)", False),
        ("SELECT a FROM t WHERE b >= (SELECT b FROM t ORDER BY b LIMIT 1)", False),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("SELECT a FROM t WHERE b = 'order by'", False),
        ("SELECT a FROM t LIMIT 3", False),
        ("SELECT '" + "x" * MAX_PROGRAM_CHARACTERS + "' ORDER BY 1", True),
        ("SELECT ((( ORDER BY", True),
    ],
)
def test_strict_order_is_that_of_the_outermost_query(gold: str, ordered: bool) -> None:
    assert gold_orders(gold, "strict") is ordered
    assert gold_orders(gold, "spider") is ("order by" in gold.lower())
    assert not gold_orders(gold, "bird")
