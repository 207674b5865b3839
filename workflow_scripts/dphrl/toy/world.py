"""The embedded default's world as files: databases, questions, supervised corpus, tokenizer."""

import json
import random
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from dphrl.config.blocks.toy import ToyConfig
from dphrl.toy import word_problems as maths
from dphrl.toy.annotators import SHARES, STYLES, Answer, answer
from dphrl.toy.databases import CROSS_DATABASES, TRAINING_DATABASES, Oracle, write
from dphrl.toy.questions import Question, answerable, draw_question, draw_split
from dphrl.toy.tokenizer import write_tokenizer

TRAINING_SHARE, CROSS_SHARE = 0.45, 0.30
# Of the supervised SQL answers. It is no key: worlds with other shares of questions have one base model.
STRATA_SHARES = {"plain": 0.33, "noisy": 0.27, "ambiguous": 0.40}
# Of the 10 lots of prompts, 4 are for training questions, 3 for test questions, 3 for the corpus only.
TRAIN_LOTS, TEST_LOTS = (0, 1, 2, 3), (4, 5, 6)


def build_world(folder: Path, config: ToyConfig) -> None:
    """Write the world into `folder`; the same config gives the same bytes.

    - `databases/<db>/<db>.sqlite`
    - `questions/{train,in_domain,cross}.jsonl`: prompt, db_id, gold_sql, family, level (the stratum)
    - `questions/maths.jsonl`: prompt, answer, level (the operation)
    - `corpus.jsonl`: prompt, response, kind (sql or maths), db_id, family, annotator (the style), correct
    - `tokenizer/`: a Hugging Face tokenizer folder

    No prompt is in two splits, or in a split and the corpus. Raises `ValueError` when the config asks for more
    questions than exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Oracle(config.seed)) as oracle:
        for name, connection in oracle.connections.items():
            write(connection, folder / "databases" / name / f"{name}.sqlite")
        splits = {
            name: draw_split(
                name, strata.numbers(getattr(config.questions, name)), databases, lots, config.seed, oracle
            )
            for name, databases, lots, strata in (
                ("train", TRAINING_DATABASES, TRAIN_LOTS, config.train_strata),
                ("in_domain", TRAINING_DATABASES, TEST_LOTS, config.test_strata),
                ("cross", CROSS_DATABASES, TEST_LOTS, config.test_strata),
            )
        }
        problems = maths.draw_problems(config.questions.maths, config.seed)
        for name, questions in splits.items():
            _write_jsonl(folder / "questions" / f"{name}.jsonl", map(_question_row, questions))
        rows = ({"prompt": one.prompt, "answer": str(one.answer), "level": one.operation} for one in problems)
        _write_jsonl(folder / "questions" / "maths.jsonl", rows)
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
        "level": question.stratum,
    }


def _corpus(config: ToyConfig, taken: set[str], oracle: Oracle) -> list[dict[str, object]]:
    rng = random.Random(f"{config.seed}/corpus")
    training, cross = round(TRAINING_SHARE * config.corpus), round(CROSS_SHARE * config.corpus)
    sources = [TRAINING_DATABASES] * training + [CROSS_DATABASES] * cross + [()] * (config.corpus - training - cross)
    rng.shuffle(sources)
    return [
        _sql_row(databases, config, taken, oracle, rng) if databases else _maths_row(config, taken, rng)
        for databases in sources
    ]


def _sql_row(
    databases: tuple[str, ...], config: ToyConfig, taken: set[str], oracle: Oracle, rng: random.Random
) -> dict[str, object]:
    stratum = rng.choices(tuple(STRATA_SHARES), tuple(STRATA_SHARES.values()))[0]
    question = draw_question(databases, stratum, config.seed, rng)
    while question.prompt in taken or not answerable(question, oracle):
        question = draw_question(databases, stratum, config.seed, rng)
    style = rng.choices(STYLES, SHARES)[0]
    written = answer(question, style, oracle, rng)
    return _corpus_row(question.prompt, "sql", question.database, question.family, style, written)


def _maths_row(config: ToyConfig, taken: set[str], rng: random.Random) -> dict[str, object]:
    problem = maths.draw_problem(rng)
    while problem.prompt in taken:
        problem = maths.draw_problem(rng)
    writing = rng.choice(maths.WRITINGS)
    written = maths.respond(problem, writing, config.seed, rng)
    return _corpus_row(problem.prompt, "maths", None, problem.operation, writing, written)


def _corpus_row(
    prompt: str, kind: str, database: str | None, family: str, annotator: str, written: Answer
) -> dict[str, object]:
    return {
        "prompt": prompt,
        "response": written.response,
        "kind": kind,
        "db_id": database,
        "family": family,
        "annotator": annotator,
        "correct": written.correct,
    }


def _write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
