"""Samples that are judged here, by the scorers of the workflow in their worker processes."""

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from tqdm import tqdm

from dphrl.config.scorers import THOUGHTS
from dphrl.data.records import SourceError, place, read_records
from dphrl.data.sample_files import SampleFile
from dphrl.diagnose.joined import UNANSWERED, known_as
from dphrl.text import visible

_NEEDED = {"math": "math_verify", "sql": "sqlglot"}
_NOT_A_RESULT = ("infrastructure_error", "gold_error")
_BATCH = 2_000
_WORKERS = 2
_GOLDS = ("gold", "answer", "gold_sql", "ground_truth", "target")
_IDS = ("question_id", "id", "idx", "index", "doc_id", "example_id", "task_id", "question", "problem", "prompt")


def check_extra(task: str) -> None:
    """Raise `ModuleNotFoundError`, for which the command names the extra, if the scorer's library is missing."""
    if importlib.util.find_spec(_NEEDED[task]) is None:
        # Worker processes import it, where it would be a fault of the machine.
        raise ModuleNotFoundError(f"--task {task} needs {_NEEDED[task]}", name=_NEEDED[task])


def judged(
    file: SampleFile, task: str, golds: Mapping[str, Any] | None = None, databases: Path | None = None
) -> SampleFile:
    """The file with new verdicts by the task's scorer, samples without an answer, and classes of answers and programs.

    Args:
        golds: ground truths by question id or text; None: golds in the file.
        databases: folder of `<db_id>/<db_id>.sqlite`, for sql.

    Raises:
        SourceError: a question without a gold, or with a gold that lacks fields of the task.
        ModuleNotFoundError: as `check_extra`.
    """
    check_extra(task)
    from dphrl.scoring.factory import make_scorer
    from dphrl.scoring.thoughts import score_answers

    rows = file.rows
    questions = rows.select("question_id", "question", "gold").iter_rows()
    truths = [_truth(file, task, key, question, gold, golds) for key, question, gold in questions]
    settings = {"answer": "final"} if task == "math" else {}
    texts, verdicts = rows["text"].to_list(), []
    bar = tqdm(
        total=len(texts),
        desc=f"judging {visible(file.path.name, '')}",
        unit=" samples",
        delay=2,
        disable=None,
        leave=False,
    )
    with make_scorer(task, settings, workers=_WORKERS, databases=databases) as scorer, bar:
        for start in range(0, len(texts), _BATCH):
            part = slice(start, start + _BATCH)
            # A file does not say how its prompts end.
            opened = [False] * len(texts[part])
            verdicts += score_answers(scorer, THOUGHTS, texts[part], truths[part], opened)
            bar.update(len(texts[part]))
    correct = [None if verdict.verdict in _NOT_A_RESULT else verdict.correct for verdict in verdicts]
    unanswered = [verdict.verdict == "no_answer" for verdict in verdicts]
    columns = {"correct": pl.Series(correct, dtype=pl.Boolean), UNANSWERED: pl.Series(unanswered, dtype=pl.Boolean)}
    for name in ("answer_class", "program_class"):
        classes = pl.Series([getattr(verdict, name) for verdict in verdicts], dtype=pl.String)
        columns |= {name: classes} if name == "answer_class" or classes.count() else {}
    return replace(file, rows=rows.with_columns(**columns), settings=file.settings | {"grader": f"dphrl {task}"})


def read_golds(path: Path) -> dict[str, Any]:
    """Ground truths by question id or text, from a file with one of these and a gold in each row.

    Raises:
        SourceError: a row without an id or question, or without a gold.
    """
    golds: dict[str, Any] = {}
    for part, number, row in read_records(path):
        key = next((row[name] for name in _IDS if row.get(name) is not None), None)
        gold = next((row[name] for name in _GOLDS if row.get(name) is not None), None)
        if key is None or gold is None:
            expected = f"an id or question ({', '.join(_IDS)}) and a gold ({', '.join(_GOLDS)})"
            raise SourceError(f"{place(part, number)}: expected {expected}")
        golds[str(key).strip()] = {"gold_sql": gold, "db_id": row["db_id"]} if "db_id" in row else gold
    return golds


def _truth(
    file: SampleFile, task: str, key: str, question: str, gold: str | None, golds: Mapping[str, Any] | None
) -> dict[str, Any]:
    gold_of_question = gold if golds is None else golds.get(key, golds.get(question.strip()))
    if gold_of_question is None:
        where = "the file has none: give them with --gold FILE" if golds is None else "--gold has none"
        raise SourceError(f"{file.path}: question {known_as(key, question)[:60]!r} has no gold answer; {where}")
    if task == "math":
        return _answer(gold_of_question)
    truth = _parsed(gold_of_question)
    if not isinstance(truth, dict) or not {"db_id", "gold_sql"} <= truth.keys():
        raise SourceError(
            f"{file.path}: question {known_as(key, question)[:60]!r}: judging SQL needs gold_sql and db_id of each"
            " question; give them with --gold FILE"
        )
    return truth


def _answer(gold: Any) -> dict[str, Any]:
    """The ground truth of a gold: a text, a list of texts or an object with `answer`, these also as JSON."""
    # Other JSON texts are answers: a number, an interval.
    parsed = _parsed(gold) if isinstance(gold, str) and gold.startswith(('["', "{")) else gold
    if isinstance(parsed, list) or (isinstance(parsed, dict) and "answer" in parsed):
        gold = parsed
    return gold if isinstance(gold, dict) else {"answer": gold}


def _parsed(gold: Any) -> Any:
    """The value of a JSON text; anything else as it is."""
    if isinstance(gold, str):
        with suppress(json.JSONDecodeError):
            return json.loads(gold)
    return gold
