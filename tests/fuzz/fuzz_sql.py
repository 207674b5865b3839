"""Mutated SQL: what reads it in this process raises nothing, and the scorer has a verdict for each in time."""

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.compare import gold_orders
from dphrl.scoring.sql.handler import within
from dphrl.scoring.sql.program import extract_sql, is_select, normalise_sql, program_class
from dphrl.scoring.sql.row_order import rewrites
from dphrl.store.verdicts import VERDICTS

Unfinished = Callable[[], bool]

SCHEMA = """
create table product(id integer primary key, name text, price real, shop_id integer);
create table shop(id integer primary key, city text, opened text);
create view dear as select name from product where price > 5;
insert into shop values (1, 'Bern', '2020-01-31'), (2, 'Rome', null), (3, 'bern', '');
insert into product values (1, 'pen', 3, 1), (2, 'cup', 8.5, 1), (3, 'hat', 8.5, 2), (4, null, -1, 9);
"""
QUERIES = [
    "SELECT name, price FROM product WHERE price > 4 ORDER BY price DESC, name LIMIT 2",
    "SELECT T1.name, T2.city FROM product AS T1 JOIN shop AS T2 ON T1.shop_id = T2.id WHERE T2.city <> ''",
    "SELECT city, count(*) AS n FROM shop LEFT JOIN product ON shop.id = shop_id GROUP BY city HAVING n > 0 ORDER BY n",
    "SELECT name FROM product WHERE price = (SELECT max(price) FROM product) UNION SELECT city FROM shop",
    "WITH c AS (SELECT shop_id, avg(price) AS m FROM product GROUP BY 1) SELECT city, round(m) FROM c, shop",
    "SELECT CASE WHEN price > 5 THEN 'dear' ELSE lower(name) END, CAST(price AS INTEGER) / 2 FROM product",
    "SELECT strftime('%Y', opened), date(opened, '+1 month'), julianday('now') > 0 FROM shop WHERE opened IS NOT NULL",
    "SELECT name, rank() OVER (PARTITION BY shop_id ORDER BY price) FROM product",
    "SELECT DISTINCT a.value FROM json_each('[1, 2, 2]') AS a WHERE a.value IN (1, 2) AND a.value BETWEEN 1 AND 9",
    "SELECT count(DISTINCT shop_id), group_concat(name, ';') FROM product WHERE name LIKE '%p%' OR id IN (3)",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20) SELECT sum(x), max(x) FROM r",
    'SELECT "name", `price`, [id] FROM main.product p WHERE NOT EXISTS (SELECT 1 FROM shop s WHERE s.id = p.shop_id)',
]
PIECES = [
    "(", ")", "((", "))", "[", "]", "{", "}", ",", ";", ".", "*", "/*", "*/", "'", '"', "`", '\\', "''", "=", "==",
    "<>", "!", "||", "->", "->>", "<<", "~", "-", "%", "/", ":x", "?1", "@a", "$b", "#", "--", "SELECT", "FROM",
    "WHERE", "HAVING", "LIMIT", "OFFSET", "INTERSECT", "WITH", "RECURSIVE", "AS", "ON", "USING", "JOIN", "NATURAL",
    "FULL", "CROSS", "LATERAL", "NOT", "IS", "NULL", "EXISTS", "IN", "ESCAPE", "OVER", "FILTER", "WINDOW", "ROWS",
    "PIVOT", "QUALIFY", "INTERVAL", "VALUES", "DISTINCT", "PRAGMA", "ATTACH", "1_0", "sqlite_master", "rowid",
    "struct", "array", "map", "cube", "unnest", "GROUP BY", "ORDER BY", "UNION ALL", "COLLATE nocase", '-- x\n',
    "> =", '\x00', '\ud800', '\xa0', '\u2028', "; DROP TABLE t",
]  # fmt: skip
# In place of a column or a literal: the query stays one, more often than not.
OPERANDS = [
    "NULL", "''", "1", "-1", "0.0", "9e999", "0x1f", "-9223372036854775808", "99999999999999999999", "x'00'", ".5e-3",
    "'order by'", '"name"', "rowid", "id", "name", "price", "*", "CURRENT_DATE", "date('now')", "YEAR(CURDATE())",
    "random()", "printf('%999999d', 1)", "zeroblob(9)", "(SELECT max(id) FROM shop)", "count(*)", "(1, 2)",
    "(SELECT a FROM (SELECT 1 AS a) ORDER BY a)", "EXISTS (SELECT 1 FROM dear)", "id IN (SELECT id FROM shop)",
    "name LIKE '%e%'", "1 AS x", "CASE WHEN id THEN name END", "sum(price) OVER (ORDER BY id)",
    "max(price) FILTER (WHERE id > 1)", '\'{"a": 1}\' -> \'a\'', "price COLLATE nocase",
]  # fmt: skip
NESTS = [
    ("date(", ")"), ("(", ")"), ("(SELECT ", ")"), ("(SELECT ", " AS x)"), ("abs(", ")"), ("cast(", " AS int)"),
    ("struct(", ")"), ("CASE WHEN 1 THEN ", " END"), ("NOT ", ""), ("- ", ""), ("x[", "]"), ("EXISTS (SELECT ", ")"),
    ("date(struct(", "))"), ("(SELECT ", " AS x ORDER BY x, x)"), ("", " COLLATE nocase"), ("", " -> 'a'"),
    ("", " UNION SELECT 1"), ("1 IN (", ")"),
]  # fmt: skip
TOKEN = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[\w+\]|[\w.]+|[<>=]+|[^\w\s]""")
OPERAND = re.compile(r"""['"`\d]|[a-z]\w*(?:\.\w+)?\Z""")
LIMITS = {"timeout_s": 2.0, "max_steps": 300_000, "max_rows": 2000, "max_bytes": 2**18}
BATCH, HONEST = 40, 4
JUDGED = {*VERDICTS} - {"infrastructure_error"}


def fuzz(random: Random, unfinished: Unfinished) -> Counter[str]:
    """Verdicts on mutated queries, and findings on mutated golds, by their number."""
    tally: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        (Path(folder) / "d").mkdir()
        with sqlite3.connect(Path(folder) / "d" / "d.sqlite") as connection:
            connection.executescript(SCHEMA)
        connection.close()
        with SqlScorer(folder, workers=2, answer="bare", partial="columns", **LIMITS) as scorer:
            while unfinished():
                queries = [mutated(random) for _ in range(BATCH)]
                for query in queries:
                    read(random, query)
                tally += score(random, scorer, queries)
    return tally


def mutated(random: Random) -> str:
    """A query after a few random changes: of its operands, or of any tokens."""
    tokens = TOKEN.findall(random.choice(QUERIES))
    change = random.choice((change_operand, change_operand, change_tokens))
    for _ in range(random.choice((1, 1, 2, 3))):
        tokens = change(random, tokens) or ["SELECT"]
    return " ".join(tokens)


def nested(random: Random, text: str) -> str:
    (before, after), depth = random.choice(NESTS), random.choice((1, 1, 1, 2, 3, 8, 11, 20))
    return before * depth + text + after * depth


def change_operand(random: Random, tokens: list[str]) -> list[str]:
    """Another or a nested expression in place of a column or a literal."""
    places = [
        place
        for place, token in enumerate(tokens)
        if OPERAND.match(token)
        and tokens[place + 1 : place + 2] != ["("]
        and tokens[place - 1] not in ("FROM", "JOIN", "AS")
    ]
    if not places:
        return tokens
    place = random.choice(places)
    text = random.choice((tokens[place], random.choice(OPERANDS)))
    return [*tokens[:place], random.choice((text, nested(random, text))), *tokens[place + 1 :]]


def change_tokens(random: Random, tokens: list[str]) -> list[str]:
    """Tokens left out, repeated, nested, inserted, or replaced by those of another query."""
    at, other = random.randrange(len(tokens) + 1), TOKEN.findall(random.choice(QUERIES))
    end, start = at + random.randint(1, 9), random.randrange(len(other))
    new = random.choice((
        [],
        [random.choice(PIECES), *tokens[at:end]],
        tokens[at:end] * random.choice((2, 3, 30)),
        [nested(random, " ".join(tokens[at:end]))],
        other[start : start + random.randint(1, 20)],
        [random.choice("()'\"`[]-*/ \n\t") * random.choice((1, 2, 50)), *tokens[at:end]],
    ))  # fmt: skip
    return [*tokens[:at], *new, *tokens[end:]]


def read(random: Random, sql: str) -> None:
    """What a worker and the scorer compute of a text: no error, no more than a second, results of the right kind."""
    started = time.process_time()
    try:
        found = within(0.5, program_class, sql)
        groups = within(0.5, rewrites, sql, random.randint(0, 3)) or []
        within(0.5, gold_orders, sql, "strict")
        response = random.choice((sql, f"```sql\n{sql}\n```", f"x ```SQL\r\n{sql}``````sql\n", f"```sql\n{sql}"))
        extracted = [extract_sql(response, "fenced"), extract_sql(response, "bare")]
        is_select(normalise_sql(sql))
    except Exception as error:
        raise AssertionError(f"{sql!r}: {error!r}") from error
    assert found is None or len(found) == 32, repr(sql)
    assert all(len(group) in (2, 3) for group in groups), repr(sql)
    assert all(text is None or text in response for text in extracted), repr(response)
    assert time.process_time() - started < 4, f"{time.process_time() - started:.1f} s of CPU time: {sql!r}"


def score(random: Random, scorer: SqlScorer, queries: Sequence[str]) -> Counter[str]:
    """Verdicts on the queries, with honest answers among them; sometimes the audit of the queries as golds."""
    comparison = random.choice(("spider", "bird", "strict"))
    gold = random.choice(QUERIES)
    answers = [*queries, *[gold] * HONEST, *[f"{gold} -- {number}" for number in range(HONEST)]]
    order = random.sample(range(len(answers)), len(answers))
    truth = {"db_id": "d", "gold_sql": gold, "comparison": comparison}
    case = f"comparison {comparison}, gold {gold!r}, answers {[answers[index] for index in order]!r}"
    started = time.monotonic()
    try:
        verdicts = scorer.score([answers[index] for index in order], [truth] * len(answers))
    except Exception as error:
        raise AssertionError(f"{error!r}: {case}") from error
    by_answer = dict(zip(order, verdicts, strict=True))
    for index, verdict in by_answer.items():
        assert verdict.verdict in JUDGED, f"{verdict}: {answers[index]!r}, {case}"
        assert (verdict.reads_table is None) == (verdict.verdict not in ("correct", "wrong")), f"{verdict}: {case}"
        assert index < len(queries) or verdict.correct, f"an honest answer is {verdict}: {case}"
    tally = Counter(by_answer[index].verdict for index in range(len(queries)))
    if random.random() < 0.3:
        golds = [{"db_id": "d", "gold_sql": query, "comparison": comparison} for query in queries]
        try:
            audited = scorer.audit(golds)
        except Exception as error:
            raise AssertionError(f"{error!r}: comparison {comparison}, golds {queries!r}") from error
        assert all((verdict == "correct") != (reason == "unrunnable") for verdict, reason in audited), repr(queries)
        tally += Counter(f"gold: {reason or 'kept'}" for _, reason in audited)
    slow = tally["timeout"] + tally["out_of_memory"] + tally["gold: unrunnable"]
    # A slow one runs twice, the second time alone, and may need a new worker each time.
    assert time.monotonic() - started < 30 + 12 * slow, f"{time.monotonic() - started:.0f} s: {case}"
    return tally
