"""Agreement of the SQL verdicts with judgements recorded by others, on the shared Spider data."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, get_args

import pytest
from published import SPIDER, needs_data

from dphrl.config.scorers import Comparison
from dphrl.scoring import SqlScorer
from dphrl.scoring.sql.compare import gold_orders
from dphrl.scoring.sql.program import program_class

pytestmark = needs_data

Scorers = dict[str, SqlScorer]

PREDICTIONS = ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5")

# Positions in the official dev.json of golds with ORDER BY in a subquery only.
ORDERED_INSIDE = [43, 44, 159, 160]

# The gold of two training questions: ORDER BY before INTERSECT, which SQLite does not parse.
REFUSED_BY_SQLITE = {
    "SELECT document_name FROM documents GROUP BY document_type_code ORDER BY count(*) DESC LIMIT 3 INTERSECT "
    "SELECT document_name FROM documents GROUP BY document_structure_code ORDER BY count(*) DESC LIMIT 3"
}

# InterCode compares sets of rows; `spider` counts repeats too: row 1789 repeats names that the gold has once.
INTERCODE_RIGHT_BY_SETS_ONLY = [1789]
# FORMAT is refused (its result differs from the gold's, too).
INTERCODE_REFUSED = [2166]


@pytest.fixture(scope="module")
def scorers() -> Iterator[Scorers]:
    """One for each comparison."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(SqlScorer(SPIDER / "database", name, answer="bare", workers=2))
            for name in get_args(Comparison)
        }


def predictions(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SPIDER / "predictions" / f"{name}.jsonl").read_text().splitlines()]


def golds(name: str) -> list[dict[str, str]]:
    rows = json.loads((SPIDER / name).read_text())
    return [{"db_id": row["db_id"], "gold_sql": row["query"]} for row in rows]


@pytest.mark.parametrize("name", PREDICTIONS)
@pytest.mark.parametrize(("comparison", "label"), [("spider", "official_ex_keep_distinct"), ("bird", "bird_set_ex")])
def test_every_label_of_the_official_evaluators_is_met(
    scorers: Scorers, name: str, comparison: str, label: str
) -> None:
    rows = predictions(name)
    verdicts = scorers[comparison].score([row["pred_sql"] for row in rows], rows)
    pairs = zip(rows, verdicts, strict=True)
    assert len(rows) == 608
    assert not [(row["dev_index"], verdict) for row, verdict in pairs if verdict.correct != bool(row[label])]


@pytest.mark.parametrize(
    ("comparison", "metric"),
    [
        ("spider", "execution_accuracy"),
        ("strict", "execution_accuracy"),
        ("bird", "bird_execution_accuracy"),
    ],
)
def test_every_metric_of_the_ibm_toolkit_is_met(scorers: Scorers, comparison: str, metric: str) -> None:
    rows = predictions("ibm_graded_failures")
    truths = [{"db_id": row["db_id"], "gold_sql": row["gold_sql"][0]} for row in rows]
    verdicts = scorers[comparison].score([row["pred_sql"] for row in rows], truths)
    pairs = zip(rows, verdicts, strict=True)
    assert len(rows) == 149
    assert {len(row["gold_sql"]) for row in rows} == {1}
    assert not [(row["question_id"], v) for row, v in pairs if v.correct != bool(row["metrics"][metric])]
    # Columns beyond those of the gold are an error here, whatever the toolkit's `subset` metric says.
    assert sum(row["metrics"]["subset_non_empty_execution_accuracy"] for row in rows) == 8


@pytest.mark.parametrize(
    ("comparison", "wrongly_wrong", "wrongly_right"),
    [("bird", [], 0), ("spider", INTERCODE_RIGHT_BY_SETS_ONLY, 50), ("strict", INTERCODE_RIGHT_BY_SETS_ONLY, 0)],
)
def test_intercode_agrees_where_mysql_and_sqlite_do(
    scorers: Scorers, comparison: str, wrongly_wrong: list[int], wrongly_right: int
) -> None:
    """`spider` finds 50 more right: their columns have another order than the gold's."""
    rows = predictions("intercode_actions")
    verdicts = scorers[comparison].score([row["action"] for row in rows], rows)
    found = defaultdict(list)
    for index, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
        found[row["consensus"], verdict.verdict].append(index)
    assert {key: len(found[key]) for key in found if key[0] != "disputed"} == {
        key: count
        for key, count in {
            ("correct", "correct"): 900 - len(wrongly_wrong),
            ("correct", "wrong"): len(wrongly_wrong),
            ("wrong_runs", "wrong"): 899 - wrongly_right,
            ("wrong_runs", "correct"): wrongly_right,
            ("wrong_runs", "refused"): 1,
            ("wrong_error", "runtime_error"): 272,
            ("wrong_error", "parse_error"): 28,
        }.items()
        if count
    }
    assert found["correct", "wrong"] == wrongly_wrong
    assert found["wrong_runs", "refused"] == INTERCODE_REFUSED
    if comparison == "spider":
        plain = [(rows[index]["action"], rows[index]) for index in found["wrong_runs", "correct"]]
        assert not any(v.correct for v in scorers["bird"].score(*zip(*plain, strict=True)))
        assert not any(v.correct for v in scorers["strict"].score(*zip(*plain, strict=True)))


def test_every_shared_gold_is_right_but_the_two_that_sqlite_refuses(scorers: Scorers) -> None:
    truths = golds("dev.json") + golds("train.json")
    verdicts = scorers["spider"].score([truth["gold_sql"] for truth in truths], truths)
    failing = [(v.verdict, truth["gold_sql"]) for v, truth in zip(verdicts, truths, strict=True) if not v.correct]
    assert len(truths) == 5258
    assert [verdict for verdict, _ in failing] == ["gold_error"] * 2
    assert {sql for _, sql in failing} == REFUSED_BY_SQLITE


def test_four_dev_golds_order_by_the_text_but_not_at_the_top() -> None:
    positions = json.loads((SPIDER / "dev_index.json").read_text())
    differing = [
        position
        for position, truth in zip(positions, golds("dev.json"), strict=True)
        if gold_orders(truth["gold_sql"], "spider") != gold_orders(truth["gold_sql"], "strict")
    ]
    assert differing == ORDERED_INSIDE


@pytest.mark.parametrize("comparison", ["spider", pytest.param("strict", marks=pytest.mark.full)])
def test_answers_of_one_program_class_have_one_verdict_and_one_result(scorers: Scorers, comparison: str) -> None:
    rows = [(row["pred_sql"], row) for name in PREDICTIONS for row in predictions(name)]
    rows += [(row["action"], row) for row in predictions("intercode_actions")]
    rows += [(truth["gold_sql"], truth) for truth in golds("dev.json")]
    found = defaultdict(set)
    for (_, row), verdict in zip(rows, scorers[comparison].score(*zip(*rows, strict=True)), strict=True):
        found[row["db_id"], row["gold_sql"], verdict.program_class].add((verdict.verdict, verdict.answer_class))
    assert len(rows) == 4715
    assert not [key for key, results in found.items() if key[-1] is not None and len(results) > 1]


def test_every_right_answer_and_every_gold_is_a_program() -> None:
    rows = [row for name in PREDICTIONS for row in predictions(name) if row["official_ex_keep_distinct"]]
    assert all(program_class(row["pred_sql"]) and program_class(row["gold_sql"]) for row in rows)
    alike = sum(program_class(row["pred_sql"]) == program_class(row["gold_sql"]) for row in rows)
    assert (len(rows), alike) == (1449, 885)
