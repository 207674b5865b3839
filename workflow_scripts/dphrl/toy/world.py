"""The embedded default's world as files: databases, questions, supervised corpus, tokenizer."""

import json
import random
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from dphrl.config.blocks.toy import ToyConfig
from dphrl.toy import word_problems as maths
from dphrl.toy.annotators import SHARES, STYLES, answer
from dphrl.toy.databases import CROSS_DATABASES, TRAINING_DATABASES, Oracle, write
from dphrl.toy.questions import Question, answerable, draw_question, draw_split
from dphrl.toy.tokenizer import write_tokenizer

TRAINING_SHARE, CROSS_SHARE = 0.45, 0.30
# Of the 10 lots of prompts, 4 are for training questions, 3 for test questions, 3 for the corpus only.
TRAIN_LOTS, TEST_LOTS = (0, 1, 2, 3), (4, 5, 6)


def build_world(folder: Path, config: ToyConfig) -> None:
    """Write the world into `folder`; the same config gives the same bytes.

    - `databases/<db>/<db>.sqlite`
    - `questions/{train,in_domain,cross}.jsonl`: prompt, db_id, gold_sql, family, level (the query's form)
    - `questions/maths.jsonl`: prompt, answer, level (the operation)
    - `corpus.jsonl`: prompt, response, kind (sql or maths), db_id, family, annotator (the style), correct, blind
    - `tokenizer/`: a Hugging Face tokenizer folder

    No prompt is in two splits, or in a split and the corpus. Raises `ValueError` when the config asks for more
    questions than exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Oracle(config.seed)) as oracle:
        for name, connection in oracle.connections():
            write(connection, folder / "databases" / name / f"{name}.sqlite")
        splits = {
            "train": draw_split("train", config.questions.train, TRAINING_DATABASES, TRAIN_LOTS, config.seed, oracle),
            "in_domain": draw_split(
                "in_domain", config.questions.in_domain, TRAINING_DATABASES, TEST_LOTS, config.seed, oracle
            ),
            "cross": draw_split("cross", config.questions.cross, CROSS_DATABASES, TEST_LOTS, config.seed, oracle),
        }
        problems = maths.draw_problems(config.questions.maths, config.seed)
        for name, questions in splits.items():
            _write_jsonl(folder / "questions" / f"{name}.jsonl", map(_question_row, questions))
        _write_jsonl(
            folder / "questions" / "maths.jsonl",
            (
                {"prompt": problem.prompt, "answer": str(problem.answer), "level": problem.operation}
                for problem in problems
            ),
        )
        taken = {question.prompt for questions in splits.values() for question in questions}
        taken |= {problem.prompt for problem in problems}
        corpus = _corpus(config, taken, oracle)
    _write_jsonl(folder / "corpus.jsonl", corpus)
    texts = [str(row[field]) for row in corpus for field in ("prompt", "response")]
    write_tokenizer(texts, config.vocabulary, folder / "tokenizer")


def _question_row(question: Question) -> dict[str, str]:
    return {
        "prompt": question.prompt,
        "db_id": question.database,
        "gold_sql": question.sql,
        "family": question.family,
        "level": question.level,
    }


def _corpus(config: ToyConfig, taken: set[str], oracle: Oracle) -> list[dict[str, object]]:
    rng = random.Random(f"{config.seed}/corpus")
    training = round(TRAINING_SHARE * config.corpus)
    cross = round(CROSS_SHARE * config.corpus)
    sources = [TRAINING_DATABASES] * training + [CROSS_DATABASES] * cross + [()] * (config.corpus - training - cross)
    rng.shuffle(sources)
    rows = []
    for databases in sources:
        rows.append(_sql_row(databases, config, taken, oracle, rng) if databases else _maths_row(config, taken, rng))
    return rows


def _sql_row(
    databases: tuple[str, ...], config: ToyConfig, taken: set[str], oracle: Oracle, rng: random.Random
) -> dict[str, object]:
    question = draw_question(databases, rng)
    while question.prompt in taken or not answerable(question, oracle):
        question = draw_question(databases, rng)
    style = rng.choices(STYLES, SHARES)[0]
    written = answer(question, style, config.design, config.seed, oracle, rng)
    return {
        "prompt": question.prompt,
        "response": written.response,
        "kind": "sql",
        "db_id": question.database,
        "family": question.family,
        "annotator": style,
        "correct": written.correct,
        "blind": written.blind,
    }


def _maths_row(config: ToyConfig, taken: set[str], rng: random.Random) -> dict[str, object]:
    problem = maths.draw_problem(rng)
    while problem.prompt in taken:
        problem = maths.draw_problem(rng)
    writing = rng.choice(maths.WRITINGS)
    response, correct, blind = maths.respond(problem, writing, config.seed, rng)
    return {
        "prompt": problem.prompt,
        "response": response,
        "kind": "maths",
        "db_id": None,
        "family": problem.operation,
        "annotator": writing,
        "correct": correct,
        "blind": blind,
    }


def _write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
