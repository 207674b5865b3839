"""Config block `scoring`: how answers are judged."""

from typing import Any

from pydantic import Field

from dphrl.config.blocks.base import Block
from dphrl.config.scorers import Comparison, MathAnswer, MathDefaults, Partial, SqlAnswer, SqlDefaults


class SqlScoringConfig(Block):
    """SQL answers are executed and their results compared with the gold's."""

    comparison: Comparison = Field(
        SqlDefaults.comparison,
        description="spider: rows as a multiset, any column order, row order iff the gold says ORDER BY; bird: rows as "
        "a set; strict: rows in column order, row order iff the gold's outermost query orders.",
    )
    answer: SqlAnswer = Field(
        SqlDefaults.answer,
        description="fenced: the last ```sql block is the answer; bare: the whole response is the SQL.",
    )
    partial: Partial = Field(
        SqlDefaults.partial,
        description="Reward of an answer that runs but is wrong: 0.8 * min(1, m^2 / (n_gold * n_pred)) with m gold "
        "columns found among the answer's (columns: with repetition; one_to_one: each answer column once); none: 0.",
    )
    workers: int = Field(2, ge=1, description="Worker processes that execute SQL.")
    timeout_s: float = Field(
        SqlDefaults.timeout_s, gt=0, description="Seconds a query may run: the second limit, after max_steps."
    )
    max_steps: int = Field(SqlDefaults.max_steps, ge=1000, description="SQLite virtual machine steps a query may take.")
    max_rows: int = Field(SqlDefaults.max_rows, ge=1, description="Rows a result may have; more is `too_large`.")
    max_bytes: int = Field(SqlDefaults.max_bytes, ge=1, description="Bytes a result may have; more is `too_large`.")
    memory_mib: int = Field(SqlDefaults.memory_mib, ge=256, description="Address space of a worker in MiB.")


class MathScoringConfig(Block):
    r"""Mathematical answers in \boxed{} are compared with the gold by value."""

    workers: int = Field(2, ge=1, description="Worker processes that compare expressions.")
    answer: MathAnswer = Field(
        MathDefaults.answer,
        description=r"boxed: the last \boxed{} is the answer; final: without one, what follows `####`, `A:` or `the "
        "answer is`, else the last expression.",
    )
    timeout_s: float = Field(MathDefaults.timeout_s, gt=0, description="Seconds a comparison may take.")
    memory_mib: int = Field(MathDefaults.memory_mib, ge=256, description="Address space of a worker in MiB.")


class CustomScoringConfig(Block):
    """A scorer of the user's own, see docs/scoring.md."""

    source: str = Field(
        min_length=1,
        description="Python file that registers a scorer under this entry's name.",
        examples=["my_scorer.py"],
    )
    options: dict[str, Any] = Field({}, description="Arguments of the scorer.")
    workers: int = Field(1, ge=1, description="Cores that the scoring job asks for.")


class ScoringConfig(Block):
    """How answers are judged, by task."""

    sql: SqlScoringConfig = Field(SqlScoringConfig(), description="SQL answers.")
    math: MathScoringConfig = Field(MathScoringConfig(), description="Mathematical answers.")
    custom: dict[str, CustomScoringConfig] = Field(
        {}, description="Scorers of your own by name; a dataset's `task` is the name of its scorer."
    )

    def of(self, task: str) -> SqlScoringConfig | MathScoringConfig | CustomScoringConfig:
        """The block of a task's scorer."""
        if task in self.custom:
            return self.custom[task]
        return {"sql": self.sql, "math": self.math}[task]  # type: ignore[return-value]
