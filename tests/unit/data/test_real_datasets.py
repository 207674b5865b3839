"""The real datasets, as their authors publish them: how many rows are prompts, and why the others are not."""

import ast
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from published import DATA, SPIDER, needs_data

from dphrl.data.databases import database_path, schema_text
from dphrl.data.gold import gold_of
from dphrl.data.overlap import overlap
from dphrl.data.prepare import Prepared, prepare
from dphrl.data.records import read_source

BIRD = DATA / "text2sql" / "bird"
MATHS = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "olympiadbench": 675, "minerva_math": 272}

pytestmark = needs_data


def read(path: Path, task: str, databases: Path | None = None) -> tuple[Prepared, list[Any], Counter[str]]:
    """A dataset prepared, its ground truths, and how many rows and prompts are rejected for which reason."""
    rows = read_source(path)
    prepared = prepare(rows, task, path.name, None, 1, databases=databases)
    gold = gold_of(prepared.prompts, prepared.rejected, rows, task)
    reasons = Counter([*prepared.rejected["reason"], *gold["reason"].drop_nulls()])
    assert prepared.prompts.height + prepared.rejected.height == len(rows)
    return prepared, [json.loads(truth) for truth in gold["ground_truth"]], reasons


def maths(name: str) -> tuple[Prepared, list[Any], Counter[str]]:
    return read(DATA / "math_eval" / name / "test.jsonl", "math")


@pytest.fixture(scope="module")
def dapo() -> tuple[Prepared, list[Any], Counter[str]]:
    return read(DATA / "math_train" / "dapo_math_17k.parquet", "math")


@pytest.mark.parametrize(("name", "rows"), MATHS.items())
def test_every_row_of_six_maths_sets_is_a_prompt(name: str, rows: int) -> None:
    prepared, truths, reasons = maths(name)
    assert (len(truths), reasons) == (rows, Counter())
    roles = [[message["role"] for message in json.loads(messages)] for messages in prepared.prompts["messages"]]
    assert roles == [["system", "user"]] * rows


def test_college_math_repeats_questions_with_other_answers() -> None:
    _, truths, reasons = maths("college_math")
    assert (len(truths), reasons) == (2782, Counter(duplicate=10, conflict=26, conflicting=24))
    assert truths[0] == {"answer": "$10-4 n$"}


def test_the_answers_of_the_maths_sets_are_as_given() -> None:
    assert {"answer": "336^\\circ"} in maths("aime25")[1]
    assert all(isinstance(truth["answer"], int) for truth in maths("amc23")[1])
    assert maths("minerva_math")[1][1] == {"answer": "4.5e33"}


def test_olympiadbench_has_several_answers_units_and_a_tolerance() -> None:
    _, truths, _ = maths("olympiadbench")
    several = [truth["answer"] for truth in truths if isinstance(truth["answer"], list)]
    # Two of the 94 rows that are marked so hold one pair.
    assert len(several) == 92
    assert several[:2] == [["(1,8,19)", "(2,7,13)", "(4,5,7)"], ["69", "84"]]
    assert ["221", "8"] in several
    assert Counter(name for truth in truths for name in truth) == Counter(answer=675, unit=8, tolerance=1)
    assert {"answer": "4.2", "tolerance": "1e-1", "unit": "%"} in truths


def test_dapo_repeats_prompts(dapo: tuple[Prepared, list[Any], Counter[str]]) -> None:
    prepared, truths, reasons = dapo
    assert (len(truths), reasons) == (17_290, Counter(duplicate=616, conflict=11, conflicting=11))
    assert json.loads(prepared.prompts["messages"][0])[0]["role"] == "user"
    assert truths[0] == {"answer": "34"}


def test_the_overlap_of_dapo_with_the_evaluation_sets(dapo: tuple[Prepared, list[Any], Counter[str]]) -> None:
    others = {name: maths(name)[0].prompts for name in [*MATHS, "college_math"]}
    found = overlap(dapo[0].prompts, others)
    assert Counter(found.select("dataset", "kind").iter_rows()) == {
        ("amc23", "exact"): 5,
        ("amc23", "normalised"): 3,
        ("math500", "exact"): 2,
        ("math500", "normalised"): 4,
        ("olympiadbench", "normalised"): 9,
    }


def test_two_rows_of_math_have_no_answer() -> None:
    _, truths, reasons = read(DATA / "math_train" / "math_train_7500.parquet", "math")
    assert (len(truths), reasons) == (7498, Counter(malformed=2))
    assert {"answer": "\\mbox{four}"} in truths


def test_the_published_spider_rows_are_taken_as_they_are() -> None:
    path = SPIDER / "dph_rl_spider_dev_prompts.jsonl"
    prepared, truths, reasons = read(path, "sql", SPIDER / "database")
    published = read_source(path)
    assert (len(truths), reasons) == (608, Counter())
    assert list(map(json.loads, prepared.prompts["messages"])) == [row["prompt"] for row in published]
    assert truths[0] == {
        "comparison": "spider",
        "db_id": "concert_singer/concert_singer.sqlite",
        "gold_sql": "SELECT count(*) FROM singer",
    }


@pytest.mark.parametrize(
    ("path", "databases", "prompts", "rejected"),
    [
        (SPIDER / "dev.json", SPIDER, 608, {}),
        (SPIDER / "train.json", SPIDER, 4643, {"duplicate": 6, "conflict": 1, "conflicting": 1}),
        (BIRD / "executable.jsonl", BIRD, 98, {"duplicate": 1}),
    ],
    ids=["spider-dev", "spider-train", "bird"],
)
def test_the_releases_of_spider_and_bird_are_read(
    path: Path, databases: Path, prompts: int, rejected: dict[str, int]
) -> None:
    _, truths, reasons = read(path, "sql", databases / "database")
    assert (len(truths), reasons) == (prompts, Counter(rejected))
    assert all(set(truth) == {"db_id", "gold_sql"} for truth in truths)


def test_the_evidence_of_bird_comes_before_the_question() -> None:
    prepared, _, _ = read(BIRD / "executable.jsonl", "sql", BIRD / "database")
    [message] = json.loads(prepared.prompts["messages"][0])
    evidence, question = "shortest life expectancy refers to MIN(LifeExpectancy);", "Which country has the shortest"
    assert f"\nQuestion:\n{evidence}\n{question}" in message["content"]


COLUMN = re.compile(r"^(    (?!PRIMARY|CONSTRAINT)(?:`[^`]*`|\w+))(?: [^,(\n]*(?:\([^)\n]*\))?)?(,?)( -- .*)?$", re.M)
KEY = re.compile(r"^    PRIMARY KEY .*\n", re.M)
SEQUENCE = re.compile(r"CREATE TABLE sqlite_sequence \(.*?\);\n\n", re.S)


def columns_alone(schema: str) -> str:
    """Neither types nor keys nor examples, nor SQLite's internal table."""
    return COLUMN.sub(r"\1\2", KEY.sub("", SEQUENCE.sub("", schema)))


def test_the_prompts_are_those_published_with_dph_rl() -> None:
    """But for the schema, all text is the same. There, the published prompts have types and keys from tables.json, and
    examples that match the question or come in the order of an index.
    """
    rows = read_source(SPIDER / "dev.json")
    own = prepare(rows, "sql", "dev", None, 1, databases=SPIDER / "database").prompts["messages"]
    published = [row["prompt"][0]["content"] for row in read_source(SPIDER / "dph_rl_spider_dev_prompts.jsonl")]
    for messages, theirs, row in zip(own, published, rows, strict=True):
        ours = json.loads(messages)[0]["content"]
        schema = schema_text(database_path(SPIDER / "database", row["db_id"]))
        before, after = ours.split(schema)
        assert theirs.startswith(before)
        assert theirs.endswith(after)
        their_schema = theirs.removeprefix(before).removesuffix(after)
        assert columns_alone(schema) == columns_alone(their_schema)


def test_examples_are_python_lists_of_at_most_two_values() -> None:
    schemas = "\n".join(schema_text(path) for path in sorted((SPIDER / "database").glob("*/*.sqlite")))
    examples = [ast.literal_eval(text) for text in re.findall(r" -- example: (\[.*\])$", schemas, re.M)]
    assert {len(values) for values in examples} == {1, 2}
    assert max(len(value) for values in examples for value in values if isinstance(value, str)) == 40
