"""From the configuration to a scorer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dphrl.scoring.custom import load_scorer
from dphrl.scoring.math.scorer import MathScorer
from dphrl.scoring.scorer import Scorer
from dphrl.scoring.sql.scorer import SqlScorer


def make_scorer(
    task: str,
    settings: Mapping[str, Any],
    *,
    workers: int = 1,
    databases: str | Path | None = None,
    source: str | Path | None = None,
    programs: bool = True,
) -> Scorer:
    """The scorer of a task: `sql`, `math` or the name of a custom scorer.

    Args:
        settings: the scorer's block of the configuration (`scoring.sql`, say), without `workers` and `source`.
        databases: folder of the databases; needed for `sql`.
        source: file of a custom scorer; needed for one.
        programs: whether verdicts on SQL have a program class; training does not need it.
    """
    if task == "sql":
        if databases is None:
            raise ValueError("task 'sql' needs the folder of its databases")
        return SqlScorer(databases, workers=workers, programs=programs, **settings)
    if task == "math":
        return MathScorer(workers=workers, **settings)
    if source is None:
        raise ValueError(f"task {task!r}: expected 'sql' or 'math', or the file of a custom scorer")
    return load_scorer(task, source, settings["options"])
