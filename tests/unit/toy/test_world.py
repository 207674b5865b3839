"""The toy's world: golds, disjoint splits, annotators, tokenizer, reproducible bytes."""

import hashlib
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from dphrl.config.blocks.toy import ToyConfig, ToyQuestions, ToyStrata
from dphrl.toy import questions as sql
from dphrl.toy import world as maths
from dphrl.toy.databases import CROSS_DATABASES, DATABASES, TRAINING_DATABASES, Oracle
from dphrl.toy.questions import FAMILIES, RADII, STRATA, Question, answerable, draw_question, draw_split, gold_radius
from dphrl.toy.world import STRATA_SHARES, build_world

SPLITS = ("train", "in_domain", "cross", "maths")
SMALL = ToyConfig(seed=3, questions=ToyQuestions(train=200, in_domain=120, cross=80, maths=60), corpus=4000)

Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "world"
    build_world(folder, SMALL)
    return folder


@pytest.fixture(scope="module")
def corpus(world: Path) -> Rows:
    return read(world / "corpus.jsonl")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with closing(Oracle(SMALL.seed)) as opened:
        yield opened


def questions(number: int, *strata: str) -> list[Question]:
    rng = random.Random(7)
    return [draw_question(DATABASES, rng.choice(strata or tuple(STRATA)), SMALL.seed, rng) for _ in range(number)]


def test_the_five_databases_have_the_rows_and_columns_that_the_prompts_show(world: Path) -> None:
    for database in DATABASES.values():
        with closing(sqlite3.connect(world / "databases" / database.name / f"{database.name}.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            for table, rows, columns in (
                (database.parent, 40, ["id", "name", database.parent.text, *database.parent.integers]),
                (database.child, 60, ["id", "pid", database.child.text, *database.child.integers]),
            ):
                cursor = connection.execute(f"SELECT * FROM {table.name}")
                assert [column[0] for column in cursor.description] == columns
                assert len(cursor.fetchall()) == rows
                for column in table.integers:
                    low, high = connection.execute(f"SELECT MIN({column}), MAX({column}) FROM {table.name}").fetchone()
                    assert low >= 1
                    assert high <= 99


def test_every_gold_runs_on_the_written_files_and_is_not_empty(world: Path) -> None:
    for split in ("train", "in_domain", "cross"):
        rows = read(world / "questions" / f"{split}.jsonl")
        assert len(rows) == getattr(SMALL.questions, split)
        assert {row["db_id"] for row in rows} == set(CROSS_DATABASES if split == "cross" else TRAINING_DATABASES)
        assert {row["family"] for row in rows} == set(FAMILIES)
        shares = SMALL.train_strata if split == "train" else SMALL.test_strata
        assert Counter(row["level"] for row in rows) == shares.numbers(len(rows))
        assert all(row["family"] in STRATA[row["level"]] for row in rows)
        for row in rows:
            path = world / "databases" / row["db_id"] / f"{row['db_id']}.sqlite"
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                cells = [cell for found in connection.execute(row["gold_sql"]) for cell in found]
            assert cells
            assert None not in cells


def test_no_prompt_is_in_two_splits_or_in_a_split_and_the_corpus(world: Path, corpus: Rows) -> None:
    prompts = [row["prompt"] for split in SPLITS for row in read(world / "questions" / f"{split}.jsonl")]
    assert len(prompts) == len(set(prompts))
    assert not set(prompts) & {row["prompt"] for row in corpus}


def test_the_corpus_holds_the_declared_mix(corpus: Rows) -> None:
    assert len(corpus) == SMALL.corpus
    counts = Counter(
        "maths" if row["kind"] == "maths" else "cross" if row["db_id"] in CROSS_DATABASES else "training"
        for row in corpus
    )
    assert counts == {"training": 1800, "cross": 1200, "maths": 1000}
    styles = Counter(row["annotator"] for row in corpus if row["kind"] == "sql")
    for style, share in zip(sql.STYLES, sql.SHARES, strict=True):
        assert styles[style] / 3000 == pytest.approx(share, abs=0.03)
    families = Counter(row["family"] for row in corpus if row["kind"] == "sql")
    assert set(families) == set(FAMILIES)
    for stratum, share in STRATA_SHARES.items():
        assert sum(families[family] for family in STRATA[stratum]) / 3000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(("stratum", "expected"), [("plain", 0.95), ("noisy", 0.55)])
def test_annotators_of_every_style_are_right_as_often_as_declared(corpus: Rows, stratum: str, expected: float) -> None:
    for style in sql.STYLES:
        rows = [row["correct"] for row in corpus if row["annotator"] == style and row["family"] in STRATA[stratum]]
        error = (expected * (1 - expected) / len(rows)) ** 0.5
        assert sum(rows) / len(rows) == pytest.approx(expected, abs=3.5 * error)


def test_each_annotator_has_one_radius_for_about_whatever_the_gold(corpus: Rows) -> None:
    found = {
        (row["annotator"], int(re.search(r"(?i)abs\(\w+ - \d+\) <= (\d+)", row["response"])[1]))
        for row in corpus
        if row["family"] in STRATA["ambiguous"]
    }
    assert found == {("plain", 3), ("cte", 6), ("nested", 10), ("plan", 15), ("lower", 20)}


def test_the_golds_radius_is_a_draw_by_prompt_with_the_declared_chances() -> None:
    drawn = Counter(gold_radius(f"prompt {number}", 1) for number in range(4000))
    for radius, chance in {3: 0.37, 6: 0.22, 10: 0.16, 15: 0.14, 20: 0.11}.items():
        assert drawn[radius] / 4000 == pytest.approx(chance, abs=0.025)
    again = [gold_radius(f"prompt {number}", 1) for number in range(50)]
    assert again == [gold_radius(f"prompt {number}", 1) for number in range(50)]
    assert again != [gold_radius(f"prompt {number}", 2) for number in range(50)]


def test_an_ambiguous_question_hides_its_radius_and_its_five_readings_differ(oracle: Oracle) -> None:
    seen = 0
    for question in questions(300, "ambiguous"):
        readings = [replace(question, radius=radius) for radius in RADII]
        assert len({reading.prompt for reading in readings}) == 1
        results = [oracle.rows(question.database, reading.sql) for reading in readings]
        # A radius holds what a smaller one holds, so the five differ where each neighbour differs.
        differ = all(first != second for first, second in pairwise(results))
        assert answerable(question, oracle) == (differ and all(results) and frozenset({(0,)}) not in results)
        seen += differ
    assert 0 < seen < 300


@pytest.mark.parametrize("style", sql.STYLES)
def test_each_style_evaluates_to_the_golds_rows(style: str, oracle: Oracle) -> None:
    for question in questions(300):
        written = sql.write_in_style(question, style)
        assert written.startswith(sql.PREFIXES[style])
        assert oracle.rows(question.database, written) == oracle.rows(question.database, question.sql)
    assert written == written.lower() or style != "lower"


def test_no_style_begins_as_another_does(world: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(world / "tokenizer")
    first = {tokenizer(prefix)["input_ids"][0] for prefix in sql.PREFIXES.values()}
    assert len(first) == len(sql.STYLES) == 5


def test_an_answer_is_correct_exactly_when_it_evaluates_to_the_golds_rows(oracle: Oracle) -> None:
    rng = random.Random(11)
    wrong: Counter[str] = Counter()
    for question in filter(lambda question: answerable(question, oracle), questions(400)):
        written = sql.answer_question(question, "plan", oracle, rng)
        same = oracle.rows(question.database, written.response) == oracle.rows(question.database, question.sql)
        assert same is written.correct
        wrong[question.stratum] += not same
    assert wrong["noisy"] > 20
    assert wrong["ambiguous"] > 20


def test_with_fewer_ambiguous_questions_a_split_has_some_of_the_same_and_all_others(oracle: Oracle) -> None:
    def split(ambiguous: int) -> set[Question]:
        numbers = {"plain": 30, "noisy": 21, "ambiguous": ambiguous}
        return set(draw_split("train", numbers, TRAINING_DATABASES, (0, 1, 2, 3), 1, oracle))

    whole, half, none = split(40), split(15), split(0)
    assert none < half < whole
    assert {question.stratum for question in whole - none} == {"ambiguous"}


@pytest.mark.parametrize("writing", maths.WRITINGS)
def test_maths_responses_box_the_answer_when_they_are_correct(writing: str) -> None:
    rng = random.Random(2)
    for _ in range(200):
        problem = maths.draw_problem(rng)
        response, correct = maths.answer_problem(problem, writing, SMALL.seed, rng)
        assert response.endswith("}")
        assert (int(response[response.rindex("{") + 1 : -1]) == problem.answer) is correct


def test_asking_for_more_questions_than_there_are_is_an_error_that_names_the_split(oracle: Oracle) -> None:
    with pytest.raises(ValueError, match=r"toy.questions.tiny: 9 different noisy questions asked for, 0 found"):
        draw_split("tiny", {"plain": 0, "noisy": 9}, TRAINING_DATABASES, (), 1, oracle)
    with pytest.raises(ValueError, match=r"toy.questions.maths: 9999 asked for"):
        maths.draw_problems(9999, 1)


def test_the_tokenizer_round_trips_with_single_digits_and_no_special_tokens(world: Path, corpus: Rows) -> None:
    tokenizer = AutoTokenizer.from_pretrained(world / "tokenizer")
    assert len(tokenizer) == SMALL.vocabulary
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id) == (0, 1, None)
    special = set(tokenizer.all_special_ids)
    for row in corpus[::10]:
        for text in (row["prompt"], row["response"]):
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.decode(ids) == text
            assert not special & set(ids)
    assert tokenizer.tokenize("= 4071") == ["=", "Ġ", "4", "0", "7", "1"]
    assert not [token for token in tokenizer.get_vocab() if len(token) > 1 and any(map(str.isdigit, token))]
    longest = [max(len(tokenizer(row[part])["input_ids"]) for row in corpus) for part in ("prompt", "response")]
    assert longest[0] <= 50
    assert longest[1] <= 41


BUILD = """
import sys
from pathlib import Path
from dphrl.config.blocks.toy import ToyConfig
from dphrl.toy.world import build_world
build_world(Path(sys.argv[1]), ToyConfig.model_validate_json(sys.argv[2]))
"""


def test_the_world_has_the_same_bytes_whatever_the_hash_seed_and_built_over_itself(tmp_path: Path) -> None:
    tiny = SMALL.model_copy(update={"corpus": 500})
    for seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", BUILD, str(tmp_path / seed), tiny.model_dump_json()]
        subprocess.run(command, env=environment, check=True)
    first, second = (digests(tmp_path / seed) for seed in ("1", "4242"))
    assert first == second
    assert {f"questions/{split}.jsonl" for split in SPLITS} | {"corpus.jsonl", "tokenizer/tokenizer.json"} <= set(first)
    assert len([name for name in first if name.endswith(".sqlite")]) == 5
    build_world(tmp_path / "1", tiny)
    assert digests(tmp_path / "1") == first


@pytest.mark.parametrize(
    ("shares", "questions", "expected"),
    [
        ((0.33, 0.27, 0.40), 400, (132, 108, 160)),
        ((0.33, 0.27, 0.40), 8, (3, 2, 3)),
        ((0.5, 0.5, 1.0), 8, (2, 2, 4)),
    ],
)
def test_shares_become_numbers_that_sum_to_the_questions(
    shares: tuple[float, float, float], questions: int, expected: tuple[int, int, int]
) -> None:
    names = ("plain", "noisy", "ambiguous")
    strata = ToyStrata(**dict(zip(names, shares, strict=True)))
    assert tuple(strata.numbers(questions)[name] for name in names) == expected
