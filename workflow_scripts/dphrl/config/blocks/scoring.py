"""The block `scoring`: how responses are judged."""

from typing import Any

from pydantic import Field

from dphrl.config.blocks.base import Block, Count, Positive, Text
from dphrl.config.scorers import (
    Comparison,
    MathAnswer,
    MathComparison,
    MathDefaults,
    Partial,
    SqlAnswer,
    SqlDefaults,
    SqlRepair,
)


class SqlScoringConfig(Block):
    """Configuration of `scoring.sql`: queries are executed and their results compared with the gold's."""

    comparison: Comparison = Field(
        SqlDefaults.comparison,
        description="spider: rows as a multiset, columns in any order, rows in order if the gold has ORDER BY; bird: "
        "rows as a set; strict: columns in order, rows in order if the gold's outermost query has ORDER BY.",
    )
    answer: SqlAnswer = Field(
        SqlDefaults.answer, description="fenced: the answer is the last ```sql block; bare: it is the whole response."
    )
    partial: Partial = Field(
        SqlDefaults.partial,
        description="Reward of an answer that runs but is wrong. none: 0; else 0.8 * min(1, m^2 / (n_gold * n_pred)), "
        "where m counts the gold columns found in the answer (one_to_one: each answer column is matched at most once).",
    )
    repair: SqlRepair = Field(
        SqlDefaults.repair,
        description="Whether `> =`, `< =`, `! =` and YEAR(CURDATE()) are repaired in answers and golds before they "
        "are executed, as in the published reward and Spider's evaluation; BIRD's executes what is written. auto: "
        "always for train_dataset; for other datasets where the comparison is not bird.",
    )
    workers: Count = Field(2, description="Number of worker processes that execute SQL.")
    timeout_s: Positive = Field(
        SqlDefaults.timeout_s, description="Seconds that a query may run; max_steps should stop it first."
    )
    max_steps: int = Field(SqlDefaults.max_steps, ge=1000, description="Most SQLite virtual machine steps of a query.")
    max_rows: Count = Field(
        SqlDefaults.max_rows, description="Maximum number of rows of a result; more is `too_large`."
    )
    max_bytes: Count = Field(
        SqlDefaults.max_bytes, description="Maximum size of a result in bytes; more is `too_large`."
    )
    memory_mib: int = Field(
        SqlDefaults.memory_mib, ge=256, description="Memory limit (address space) of a worker in MiB."
    )


class MathScoringConfig(Block):
    """Configuration of `scoring.math`: answers are compared with the gold by value."""

    comparison: MathComparison = Field(
        MathDefaults.comparison,
        description="rules: math-verify with the rules of docs/scoring.md, which refuse answers that hedge or answer "
        "something else; published: math-verify's own verdicts, for numbers that compare with papers.",
    )
    workers: Count = Field(2, description="Number of worker processes that compare expressions.")
    answer: MathAnswer = Field(
        MathDefaults.answer,
        description=r"boxed: the answer is the last \boxed{}; final: without one, it is the text after `####`, `A:` "
        "or `the answer is`, else the last expression.",
    )
    timeout_s: Positive = Field(MathDefaults.timeout_s, description="Time limit of a comparison in seconds.")
    memory_mib: int = Field(
        MathDefaults.memory_mib, ge=256, description="Memory limit (address space) of a worker in MiB."
    )


class CustomScoringConfig(Block):
    """A custom scorer (docs/scoring.md)."""

    source: Text = Field(description="Python file that registers a scorer of this name.", examples=["my_scorer.py"])
    options: dict[str, Any] = Field({}, description="Arguments of the scorer's constructor.")
    workers: Count = Field(1, description="Number of cores of the scoring job.")


class ScoringConfig(Block):
    """Configuration of the block `scoring`."""

    sql: SqlScoringConfig = Field(SqlScoringConfig(), description="Task sql.")
    math: MathScoringConfig = Field(MathScoringConfig(), description="Task math.")
    custom: dict[str, CustomScoringConfig] = Field(
        {}, description="Custom scorers by name; a dataset with such a scorer has its name as `task`."
    )

    def of(self, task: str) -> SqlScoringConfig | MathScoringConfig | CustomScoringConfig:
        """The block of a task's scorer."""
        if task in self.custom:
            return self.custom[task]
        return {"sql": self.sql, "math": self.math}[task]  # type: ignore[return-value]
