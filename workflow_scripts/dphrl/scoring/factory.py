"""From the configuration to a scorer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dphrl.scoring.maths import MathScorer
from dphrl.scoring.sql import SqlScorer

if TYPE_CHECKING:
    from dphrl.config.scoring import ScoringConfig


def make_scorer(
    task: str, config: ScoringConfig, databases: str | Path | None = None, workers: int | None = None
) -> SqlScorer | MathScorer:
    """The scorer of a task, `sql` or `math`; `databases` and `workers`, if given, stand in for the configuration's."""
    if task == "sql":
        sql = config.sql
        return SqlScorer(
            databases if databases is not None else sql.databases,
            comparison=sql.comparison,
            timeout_s=sql.timeout_s,
            max_rows=sql.max_rows,
            workers=workers or sql.workers,
            answer=sql.answer,
            partial=sql.partial,
            max_steps=sql.max_steps,
            max_bytes=sql.max_bytes,
            memory_mib=sql.memory_mib,
        )
    if task == "math":
        return MathScorer(workers or config.math.workers, config.math.timeout_s, config.math.memory_mib)
    raise ValueError(f"task {task!r}: expected 'sql' or 'math'")
