"""SQL: extraction, comparison, partial credit, verdicts, tables."""

import json
import os
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import permutations
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_databases import write_database

from dphrl.config.blocks.data import ScoringConfig, SqlScoringConfig
from dphrl.config.scorers import SqlRepair
from dphrl.scoring import SqlScorer
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.sql.compare import answer_class, equal, partial_credit
from dphrl.scoring.sql.program import extract_sql, normalise_sql
from dphrl.scoring.sql.scorer import MAX_RESPONSE
from dphrl.scoring.verdict import EMPTY_ANSWER, InfrastructureError
from dphrl.scoring.verdict_tables import audit_gold, verdict_frame
from dphrl.store.catalogue import SCHEMAS

cells = st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["a", "1", ""]), st.just(1.0))
tables = st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=1, max_size=5))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = (
        "create table product(id integer, name text, price integer);"
        "insert into product values (1,'pen',3),(2,'cup',8),(3,'hat',8),(4,null,5);"
        "insert into product values (5, cast(x'41ff42' as text), 1);"
        "create view dear as select name from product where price > 5; create view fixed as select 1 as one;"
        'create table "Été 7"(a integer primary key autoincrement);'
    )
    return write_database(tmp_path_factory.mktemp("databases"), "shop", script).parents[1]


@pytest.fixture(scope="module")
def scorer(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(databases, comparison="spider", partial="columns") as scorer:
        yield scorer


@pytest.fixture(scope="module")
def bare(databases: Path) -> Iterator[SqlScorer]:
    with SqlScorer(databases, answer="bare") as scorer:
        yield scorer


def fence(sql: str) -> str:
    return f"Let me think.\n```sql\n{sql}\n```\n"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (fence("SELECT 1"), "SELECT 1"),
        (fence("SELECT 1") + fence("SELECT 2"), "SELECT 2"),
        ("```SQL  \r\nSELECT 3\r\n```", "SELECT 3"),
        (fence("SELECT 1") + "```sql\n-- Your SQL query\n```", "SELECT 1"),
        ("```sql\n-- Your SQL query\n```", None),
        (fence("-- only a comment"), None),
        ("```sql SELECT 1```", None),
        ("```\nSELECT 1\n```", None),
        ("```sql\nSELECT 1", None),
        (fence("SELECT 1") + "```sql\nSELECT 2", "SELECT 1"),
        (fence("-- Your SQL query\nSELECT 1"), "-- Your SQL query\nSELECT 1"),
        ("````sql\nSELECT 1\n````", "SELECT 1"),
        ("```sql\nSELECT '```' FROM t\n```", "SELECT '"),
        (fence("SELECT 1") + fence(""), None),
    ],
)
def test_the_last_fenced_block_is_the_answer(response: str, expected: str | None) -> None:
    assert extract_sql(response, "fenced") == expected


def test_a_bare_response_is_the_answer() -> None:
    assert extract_sql("-- plan count\nSELECT 1 \n", "bare") == "-- plan count\nSELECT 1"
    assert extract_sql("-- plan count", "bare") is None


@pytest.mark.parametrize("piece", ["/**/", "--\n", " "])
def test_comments_before_an_answer_take_no_memory(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    tracemalloc.start()
    assert extract_sql(text, "bare") is None
    assert extract_sql(f"{text}SELECT 1", "bare") is not None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_a_response_over_the_limit_is_too_large_and_one_below_is_read(scorer: SqlScorer) -> None:
    truth = {"db_id": "shop", "gold_sql": GOLD}
    spare = MAX_RESPONSE - len(fence(GOLD))
    below, over = scorer.score([" " * spare + fence(GOLD), " " * (spare + 1) + fence(GOLD)], [truth] * 2)
    assert below.correct
    assert (over.verdict, over.extracted, over.reward) == ("too_large", None, 0.0)


def test_normalisation_is_that_of_the_spider_evaluation() -> None:
    assert normalise_sql("a > = 1 and b < = 2 and c ! = 3") == "a >= 1 and b <= 2 and c != 3"
    assert normalise_sql("year( CurDate() ) - 1") == "2020- 1"


@pytest.mark.parametrize(
    ("gold", "answer", "comparison", "ordered", "expected"),
    [
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], "spider", False, True),
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], "bird", False, False),
        ([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], "spider", True, False),
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], "spider", True, True),
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")], "spider", False, False),
        ([(1,), (1,)], [(1,)], "spider", False, False),
        ([(1,), (1,)], [(1,)], "bird", False, True),
        ([(1,), (2,)], [(2,), (1,)], "strict", False, True),
        ([(1,), (2,)], [(2,), (1,)], "strict", True, False),
        ([], [], "spider", False, True),
        ([], [(None,)], "spider", False, False),
        ([(1,)], [(1.0,)], "spider", False, True),
        ([(1,)], [("1",)], "spider", False, False),
        ([(2**53,)], [(float(2**53),)], "bird", False, True),
        ([(2**53 + 1,)], [(float(2**53),)], "bird", False, False),
        ([(0.1 + 0.2,)], [(0.3,)], "strict", False, False),
        ([(-0.0,)], [(0,)], "strict", False, True),
        ([(None,)], [(None,)], "strict", False, True),
        ([(None,)], [("",)], "spider", False, False),
        ([("a",)], [("A",)], "bird", False, False),
        ([(b"a",)], [("a",)], "spider", False, False),
        ([(1, 1)], [(1,)], "spider", False, False),
        ([(1, 2), (1, 2)], [(2, 1), (1, 2)], "spider", False, False),
        # The columns are equal as bags, one by one and in pairs, but no one order of them makes the rows equal.
        (
            [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
            [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1)],
            "spider",
            False,
            False,
        ),
    ],
)
def test_equality(gold: list, answer: list, comparison: str, ordered: bool, expected: bool) -> None:  # type: ignore[type-arg]
    assert equal(gold, answer, comparison, ordered) is expected


@given(tables, st.randoms(use_true_random=False), st.booleans())
def test_spider_equality_is_that_of_some_column_order(rows: list, random: Random, ordered: bool) -> None:  # type: ignore[type-arg]
    other = [list(row) for row in rows]
    if random.random() < 0.5:
        other[random.randrange(len(other))][random.randrange(len(other[0]))] = random.choice([None, 0, 1, "a"])
    order = random.sample(range(len(rows[0])), len(rows[0]))
    answer = [tuple(row[i] for i in order) for row in other]
    if not ordered:
        random.shuffle(answer)
    key = (lambda table: table) if ordered else (lambda table: sorted(table, key=repr))
    gold = [tuple(int(v) if isinstance(v, float) else v for v in row) for row in rows]
    plain = [tuple(int(v) if isinstance(v, float) else v for v in row) for row in answer]
    truth = any(key([tuple(row[i] for i in p) for row in plain]) == key(gold) for p in permutations(range(len(order))))
    assert equal(rows, answer, "spider", ordered) is truth
    for comparison in ("spider", "bird", "strict"):
        if equal(rows, answer, comparison, ordered):
            assert answer_class(rows, comparison, ordered) == answer_class(answer, comparison, ordered)
    if not truth:
        assert answer_class(rows, "strict", True) != answer_class(answer, "strict", True)


def test_ambiguous_columns_are_matched_fast() -> None:
    gold = [tuple((row >> bit) & 1 for bit in range(11)) for row in range(2048)]
    answer = [row[::-1] for row in reversed(gold)]
    assert equal(gold, answer, "spider", False)


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], 0.8),
        ([(1, 10), (2, 20)], [(1, 10, 5), (2, 20, 5)], 0.8 * 4 / 6),
        ([(1, 10), (2, 20)], [(1,), (2,)], 0.4),
        ([(1, 2, 3)], [(1, 8, 9)], 0.8 / 9),
        ([(1, 1), (2, 2)], [(1,), (2,)], 0.8),
        ([(8, "cup"), (8, "hat")], [(8,)], 0.4),
        ([(1,)], [], 0.0),
        ([], [(1,)], 0.0),
    ],
)
def test_partial_credit(gold: list, answer: list, expected: float) -> None:  # type: ignore[type-arg]
    assert partial_credit(gold, answer, one_to_one=False) == pytest.approx(expected, abs=1e-12)


def test_partial_credit_one_to_one_uses_an_answer_column_once() -> None:
    assert partial_credit([(1, 1), (2, 2)], [(1,), (2,)], one_to_one=True) == pytest.approx(0.4)


GOLD = "SELECT name, price FROM product WHERE price > 4"


@pytest.mark.parametrize(
    ("sql", "verdict", "reward"),
    [
        (GOLD, "correct", 1.0),
        ("SELECT price, name FROM product WHERE price >= 5;", "correct", 1.0),
        ("WITH t AS (SELECT * FROM product) SELECT name, price FROM t WHERE price > = 5", "correct", 1.0),
        ("-- plan\nselect name, price from product where price > 4", "correct", 1.0),
        ("SELECT name FROM product WHERE price > 4", "wrong", 0.4),
        ("SELECT name FROM product WHERE price > 99", "wrong", 0.0),
        ("SELEC name", "refused", 0.0),
        ("SELECT name FROM product WHERE", "parse_error", 0.0),
        ("SELECT nam FROM product", "runtime_error", 0.0),
        ("SELECT '\x00'", "parse_error", 0.0),
        ("SELECT 1; SELECT 2", "refused", 0.0),
    ],
)
def test_verdicts(scorer: SqlScorer, sql: str, verdict: str, reward: float) -> None:
    (found,) = scorer.score([fence(sql)], [{"db_id": "shop", "gold_sql": GOLD}])
    assert (found.verdict, found.correct) == (verdict, verdict == "correct"), found.detail
    assert found.reward == pytest.approx(reward)
    assert found.extracted == sql


@pytest.mark.parametrize(
    ("gold", "answer", "accepting"),
    [
        ("SELECT count(*) FROM product", "SELECT 5", "spider bird strict"),
        ("SELECT name FROM product WHERE price > 99", "SELECT 1, 2 WHERE 0", "spider bird strict"),
        ("SELECT price, name FROM product", "SELECT name, price FROM product", "spider"),
        ("SELECT DISTINCT price FROM product", "SELECT price FROM product", "bird"),
        ("SELECT price FROM product WHERE price = 8", "SELECT 8", "bird"),
        ("SELECT name FROM product ORDER BY price", "SELECT name FROM product", "bird"),
        # Bytes that are not UTF-8 are dropped.
        ("SELECT 'AB'", "SELECT name FROM product WHERE id = 5", "spider bird strict"),
    ],
)
def test_wrong_programs_that_comparisons_accept(bare: SqlScorer, gold: str, answer: str, accepting: str) -> None:
    """docs/scoring.md has rows of this table."""
    comparisons = ("spider", "bird", "strict")
    truths = [{"db_id": "shop", "gold_sql": gold, "comparison": comparison} for comparison in comparisons]
    verdicts = zip(comparisons, bare.score([answer] * 3, truths), strict=True)
    assert [comparison for comparison, verdict in verdicts if verdict.correct] == accepting.split()


@pytest.mark.parametrize(
    ("repair", "repaired"),
    [("auto", ["spider", "strict"]), ("always", ["spider", "bird", "strict"]), ("never", [])],
)
def test_operators_are_repaired_as_the_option_says(databases: Path, repair: SqlRepair, repaired: list[str]) -> None:
    whole, parted = "SELECT name FROM product WHERE price >= 1", "SELECT name FROM product WHERE price > = 1"
    comparisons = ("spider", "bird", "strict")
    truths = [{"db_id": "shop.sqlite", "gold_sql": whole, "comparison": one} for one in comparisons]
    with SqlScorer(databases, answer="bare", repair=repair) as scorer:
        verdicts = dict(zip(comparisons, scorer.score([parted] * 3, truths), strict=True))
        golds = scorer.audit([{**truth, "gold_sql": parted} for truth in truths])
        (clean,) = scorer.score([whole], truths[:1])
    assert [name for name in comparisons if verdicts[name].correct] == repaired
    assert {v.verdict for name, v in verdicts.items() if name not in repaired} <= {"parse_error"}
    assert {v.extracted for v in verdicts.values()} == {parted}
    assert [reason for _, reason in golds] == [None if name in repaired else "unrunnable" for name in comparisons]
    classes = {name: verdict.program_class for name, verdict in verdicts.items()}
    assert classes == {name: clean.program_class if name in repaired else None for name in comparisons}


def test_classes_count_answers_and_programs(bare: SqlScorer) -> None:
    queries = [GOLD, GOLD.lower(), "SELECT price, name FROM product WHERE price > 4", "SELECT 1", "SELECT 1 WHERE 0"]
    verdicts = bare.score(queries, [{"db_id": "shop", "gold_sql": GOLD}] * len(queries))
    assert len({v.answer_class for v in verdicts[:3]}) == 1
    assert verdicts[3].answer_class != verdicts[0].answer_class
    assert verdicts[4].answer_class == EMPTY_ANSWER
    assert len({v.program_class for v in verdicts[:3]}) == 2


READING = {
    True: [
        "SELECT count(*) FROM product",
        "SELECT rowid FROM product",
        "SELECT (SELECT max(price) FROM product)",
        "SELECT count(*) FROM dear",
        "WITH c AS (SELECT * FROM product) SELECT count(*) FROM c",
        'SELECT 1 FROM "ÉTé 7"',
    ],
    False: [
        "SELECT 3",
        "SELECT 'pen' UNION SELECT 'cup'",
        "WITH product(id) AS (SELECT 1) SELECT id FROM product",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5) SELECT count(*) FROM c",
        "SELECT count(*) FROM sqlite_master",
        "SELECT count(*) FROM json_tree('[3]') AS product",
        "SELECT one FROM fixed",
        "WITH unused AS (SELECT * FROM product) SELECT 3",
    ],
}


@pytest.mark.parametrize(("sql", "reads"), [(sql, reads) for reads, queries in READING.items() for sql in queries])
def test_a_verdict_says_whether_the_answer_read_a_table(bare: SqlScorer, sql: str, reads: bool) -> None:
    """Also of an answer that is the gold, and of one whose text was run before."""
    truths = [{"db_id": "shop", "gold_sql": gold} for gold in ("SELECT 0.5", sql, "SELECT 0.25")]
    verdicts = [*bare.score([sql] * 3, truths), *bare.score([sql], truths[:1])]
    assert [(v.correct, v.reads_table) for v in verdicts] == [(right, reads) for right in (False, True, False, False)]


def test_what_did_not_run_has_no_classes_and_reads_nothing(scorer: SqlScorer) -> None:
    golds = ["SELECT 1", "SELECT 1", "SELECT 1", "SELECT name FROM missing"]
    responses = ["no answer", fence("SELECT name FROM product WHERE"), fence("SELECT nam FROM product"), fence(GOLD)]
    verdicts = scorer.score(responses, [{"db_id": "shop", "gold_sql": gold} for gold in golds])
    assert [v.verdict for v in verdicts] == ["no_answer", "parse_error", "runtime_error", "gold_error"]
    assert {(v.answer_class, v.program_class, v.reads_table) for v in verdicts} == {(None, None, None)}
    assert "missing" in str(verdicts[3].detail)


def test_a_class_never_costs_a_verdict(databases: Path) -> None:
    """Nor is one computed for an answer that did not run."""
    dates = [f"{'date(' * depth}'2020-01-01'{')' * depth}" for depth in (10, 25)]
    aliases = f"{'(SELECT ' * 14}id{' AS x)' * 14}"
    golds = [f"SELECT {', '.join([dates[0]] * 100)}", f"SELECT {dates[1]}", f"SELECT {aliases} FROM product"]
    queries = [*golds, "SELECT nam FROM product", "SELECT name FROM product LIMIT 'x'", GOLD]
    truths = [{"db_id": "shop", "gold_sql": gold, "comparison": "strict"} for gold in [*golds, GOLD, GOLD, GOLD]]
    started = time.monotonic()
    with SqlScorer(databases, answer="bare", timeout_s=2) as scorer:
        verdicts = scorer.score(queries, truths)
        audited = scorer.audit(truths[:3])
    assert time.monotonic() - started < 20
    assert [v.verdict for v in verdicts] == ["correct"] * 3 + ["runtime_error"] * 2 + ["correct"]
    assert [v.program_class is None for v in verdicts] == [True] * 5 + [False]
    assert audited == [("correct", None)] * 3


def test_a_database_with_changes_that_are_not_in_its_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w" / "w.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as writer, SqlScorer(tmp_path) as scorer:
        writer.executescript("pragma journal_mode = wal; create table t(a);")
        with pytest.raises(InfrastructureError, match=r"w\.sqlite-wal has changes that .* PRAGMA wal_checkpoint"):
            scorer.score([fence("SELECT 2")], [{"db_id": "w", "gold_sql": "SELECT count(*) FROM t"}])


def test_a_folder_whose_name_is_not_utf8_is_no_fault_of_golds(databases: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xe9 ?#%41")
    folder.symlink_to(databases)
    with SqlScorer(folder) as scorer:
        assert scorer.score([fence(GOLD)], [{"db_id": "shop", "gold_sql": GOLD}])[0].correct


def test_wrong_use_is_an_error(scorer: SqlScorer, databases: Path) -> None:
    with pytest.raises(ValueError, match="2 ground truths"):
        scorer.score(["x"], [{}, {}])
    for truth in ({"db_id": "shop"}, {"db_id": 7, "gold_sql": GOLD}):
        with pytest.raises(ValueError, match="ground truth 0: expected strings under db_id and gold_sql"):
            scorer.score([fence("SELECT 1")], [truth])
    with pytest.raises(ValueError, match="comparison"):
        scorer.score([fence("SELECT 1")], [{"db_id": "shop", "gold_sql": "SELECT 1", "comparison": "set"}])
    with pytest.raises(ValueError, match="comparison is 'set'"):
        SqlScorer(databases, comparison="set")  # type: ignore[arg-type]


def test_the_factory_and_the_defaults_of_the_paper(databases: Path) -> None:
    config = ScoringConfig()
    assert (config.sql.comparison, config.sql.answer, config.sql.partial) == ("spider", "fenced", "none")
    bare = SqlScoringConfig(answer="bare", comparison="bird").model_dump(exclude={"workers"})
    with make_scorer("sql", bare, databases=databases) as scorer:
        assert isinstance(scorer, SqlScorer)
        assert scorer.score(["SELECT 1"], [{"db_id": "shop", "gold_sql": "SELECT 1"}])[0].correct


def test_verdicts_as_a_table(bare: SqlScorer) -> None:
    verdicts = bare.score(["SELECT '\ud800'", GOLD], [{"db_id": "shop", "gold_sql": GOLD}] * 2)
    keys = pl.DataFrame({"prompt_id": ["p", "p"], "sample_index": [-1, 0]})
    frame = verdict_frame(keys, verdicts)
    assert SCHEMAS["verdicts"].conform(frame, "test").equals(frame)
    assert frame["verdict"].to_list() == ["parse_error", "correct"]
    assert verdict_frame(keys.clear(), []).schema == frame.schema


def test_the_audit_of_gold(scorer: SqlScorer) -> None:
    golds = [GOLD, "SELECT nothing", "SELECT 1 WHERE 0", GOLD, "SELECT random()", GOLD, "SELECT no"]
    frame = pl.DataFrame(
        {
            "prompt_id": list("abcdefg"),
            "ground_truth": [json.dumps({"db_id": "shop", "gold_sql": gold}) for gold in golds],
            "kept": [True] * 5 + [False] * 2,
            "reason": [None] * 5 + ["conflicting"] * 2,
        }
    )
    audited = audit_gold(frame, scorer, {"empty", "conflicting"})
    assert SCHEMAS["gold"].conform(audited, "test").equals(audited)
    assert audited["kept"].to_list() == [True, False, False, True, False, False, False]
    reasons = [None, "unrunnable", "empty", None, "unrunnable", "conflicting", "conflicting"]
    assert audited["reason"].to_list() == reasons
    assert audited["verdict"].to_list()[:2] == ["correct", "gold_error"]
    lenient = audit_gold(frame, scorer, ())
    assert lenient["kept"].to_list() == [True, False, True, True, False, True, False]
    assert lenient["reason"].to_list() == [*reasons[:-1], "unrunnable"]
    assert audit_gold(frame.clear(), scorer, ()).schema == audited.schema


def test_the_worker_imports_nothing_heavy() -> None:
    heavy = {"polars", "torch", "numpy", "pydantic"}
    code = f"import sys, dphrl.scoring.workers.worker; print(sorted({heavy} & set(sys.modules)))"
    root = Path(sys.modules["dphrl"].__file__ or "").parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
