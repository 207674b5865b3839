"""Config block `scoring`: how answers are judged."""

from typing import Any, Literal

from pydantic import Field

from dphrl.config.blocks.base import Block


class SqlScoringConfig(Block):
    """SQL answers are executed and their results compared with the gold's."""

    comparison: Literal["spider", "bird", "strict"] = Field(
        "spider",
        description="spider: rows as a multiset, any column order, row order iff the gold says ORDER BY; bird: rows as "
        "a set; strict: rows in column order, row order iff the gold's outermost query orders.",
    )
    answer: Literal["fenced", "bare"] = Field(
        "fenced", description="fenced: the last ```sql block is the answer; bare: the whole response is the SQL."
    )
    partial: Literal["none", "columns", "one_to_one"] = Field(
        "none",
        description="Reward of an answer that runs but is wrong: 0.8 * min(1, m^2 / (n_gold * n_pred)) with m gold "
        "columns found among the answer's (columns: with repetition; one_to_one: each answer column once); none: 0.",
    )
    workers: int = Field(2, ge=1, description="Worker processes that execute SQL.")
    timeout_s: float = Field(30.0, gt=0, description="Seconds a query may run: the second limit, after max_steps.")
    max_steps: int = Field(500_000_000, ge=1000, description="SQLite virtual machine steps a query may take.")
    max_rows: int = Field(200_000, ge=1, description="Rows a result may have; more is `too_large`.")
    max_bytes: int = Field(64 * 2**20, ge=1, description="Bytes a result may have; more is `too_large`.")
    memory_mib: int = Field(1024, ge=256, description="Address space of a worker in MiB.")


class MathScoringConfig(Block):
    r"""Mathematical answers in \boxed{} are compared with the gold by value."""

    workers: int = Field(2, ge=1, description="Worker processes that compare expressions.")
    answer: Literal["boxed", "final"] = Field(
        "boxed",
        description=r"boxed: the last \boxed{} is the answer; final: without one, what follows `####`, `A:` or `the "
        "answer is`, else the last expression.",
    )
    timeout_s: float = Field(5.0, gt=0, description="Seconds a comparison may take.")
    memory_mib: int = Field(1024, ge=256, description="Address space of a worker in MiB.")


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
