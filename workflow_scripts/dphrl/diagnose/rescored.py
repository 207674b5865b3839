"""Samples that are judged here, by the scorers of the workflow in their worker processes."""

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import polars as pl
from tqdm import tqdm

from dphrl.config.scorers import THOUGHTS
from dphrl.data.fields import NAMES, Fields, MalformedError
from dphrl.data.ground_truth import truth_of
from dphrl.data.records import SourceError, place, read_records
from dphrl.data.sample_fields import Field, FieldError, id_of
from dphrl.data.sample_files import SampleFile
from dphrl.data.sample_formats import PLAIN
from dphrl.diagnose.joined import UNANSWERED
from dphrl.text import visible

_NEEDED = {"math": "math_verify", "sql": "sqlglot"}
_NOT_A_RESULT = ("infrastructure_error", "gold_error")
_BATCH = 2_000
_WORKERS = 2
_KEY = Field((*PLAIN.names["question_id"], *PLAIN.names["question"]))
_GOLD = Field((*PLAIN.names["gold"], *NAMES["gold_sql"]))


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
    from dphrl.scoring.verdict import score_answers

    rows = file.rows
    questions = rows.select("question_id", "question", "gold").iter_rows()
    truths = [_truth(file, task, key, question, gold, golds) for key, question, gold in questions]
    settings = {"answer": "final"} if task == "math" else {}
    texts, verdicts = rows["text"].to_list(), []
    about = f"judging {visible(file.path.name, '')}"
    starts = tqdm(range(0, len(texts), _BATCH), about, unit=" batches", delay=2, disable=None, leave=False)
    with make_scorer(task, settings, workers=_WORKERS, databases=databases) as scorer:
        for start in starts:
            part = slice(start, start + _BATCH)
            # A file does not say how its prompts end.
            opened = [False] * len(texts[part])
            verdicts += score_answers(scorer, THOUGHTS, texts[part], truths[part], opened)
    correct = [None if verdict.verdict in _NOT_A_RESULT else verdict.correct for verdict in verdicts]
    unanswered = [verdict.verdict == "no_answer" for verdict in verdicts]
    columns = {"correct": pl.Series(correct, dtype=pl.Boolean), UNANSWERED: pl.Series(unanswered, dtype=pl.Boolean)}
    for name in ("answer_class", "program_class"):
        classes = pl.Series([getattr(verdict, name) for verdict in verdicts], dtype=pl.String)
        columns |= {name: classes} if name == "answer_class" or classes.count() else {}
    return replace(file, rows=rows.with_columns(**columns), settings=file.settings | {"grader": f"dphrl {task}"})


def read_golds(path: Path, task: str) -> dict[str, dict[str, Any]]:
    """Ground truths by question id or text, from a file with one of these and a gold in each row.

    Raises:
        SourceError: a row without an id or question, or without a gold of the task.
    """
    golds = {}
    for part, number, row in read_records(path):
        key = _KEY.find(row)
        if key is None:
            names = "docs/datasets.md has its names"
            raise SourceError(f"{place(part, number)}: expected an id or the text of a question ({names})")
        try:
            truth = truth_of(row | {"ground_truth": _GOLD.find(row)}, task, Fields({}))
            golds[normalize("NFC", id_of(_KEY, key)).strip()] = truth
        except (FieldError, MalformedError) as error:
            raise SourceError(f"{place(part, number)}: {error}") from None
    return golds


def _truth(
    file: SampleFile, task: str, key: str, question: str, gold: str | None, golds: Mapping[str, Any] | None
) -> dict[str, Any]:
    shown = f"{file.path}: question {key[:60]!r}"
    if golds is not None:
        truth = golds.get(key, golds.get(question))
        if truth is None:
            raise SourceError(f"{shown} has no gold answer; --gold has none")
        return truth
    if gold is None:
        raise SourceError(f"{shown} has no gold answer; the file has none: give them with --gold FILE")
    # Other JSON texts are answers: a number, an interval.
    value: Any = gold
    if gold.startswith(('["', "{")):
        with suppress(json.JSONDecodeError):
            value = json.loads(gold)
    try:
        return truth_of({"ground_truth": value}, task, Fields({}))
    except MalformedError as error:
        raise SourceError(f"{shown}: {error}; give golds with --gold FILE") from None
