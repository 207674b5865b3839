"""The datasets: what is asked, and where the rows come from."""

from pathlib import PurePath
from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block
from dphrl.config.scorers import Comparison

SQL, MATH = "sql", "math"
TOY = "toy"
OptionalDrop = Literal["empty", "nondeterministic", "order-ambiguous", "conflicting"]
FieldName = Literal[
    "prompt",
    "messages",
    "question",
    "evidence",
    "db_id",
    "gold_sql",
    "comparison",
    "answer",
    "solution",
    "is_multiple_answer",
    "tolerance",
    "unit",
    "ground_truth",
    "level",
]


class DatasetConfig(Block):
    """Configuration of one entry of the block `datasets`."""

    task: str = Field(
        description="What the rows ask for: sql (a query that is run), math (an answer that is compared), or the name "
        "of a scorer of yours under scoring.custom.",
        examples=["sql"],
    )
    source: str = Field(
        min_length=1,
        description="Path of a JSONL, JSON or parquet file (docs/datasets.md names the layouts that are read as they "
        "come); or toy: the questions of that name of the block `toy`.",
        examples=["data/bird_train.jsonl"],
    )
    fields: dict[FieldName, str] = Field(
        {}, description="What the file calls a field, where it is not the usual name: {question: query_text}."
    )
    databases: str | None = Field(
        None,
        min_length=1,
        description="Folder holding <db_id>/<db_id>.sqlite, for task sql. Default: `database` beside the source, as in "
        "the Spider and BIRD releases.",
    )
    comparison: Comparison | None = Field(
        None, description="How results are compared, whatever the rows say; null: as a row says, else as scoring.sql."
    )
    instruction: str | None = Field(
        None,
        min_length=1,
        description="System message put before the messages of each row. Default: none, but for bare mathematical "
        "questions, which are asked to put the final answer within \\boxed{}.",
    )
    drop: tuple[OptionalDrop, ...] = Field(
        ("empty", "nondeterministic", "conflicting"),
        description="Gold answers that are set aside, beside those that do not run: empty (no rows), nondeterministic "
        "(random(), date('now')), order-ambiguous (the rows depend on the order in which SQLite reads a table), "
        "conflicting (rows with the same prompt disagree). What is not listed is reported only.",
    )

    @property
    def database_folder(self) -> str | None:
        """The folder of the databases; `toy` for the toy's own; None where the task needs none."""
        if self.task != SQL:
            return None
        if self.source == TOY:
            return TOY
        return self.databases or str(PurePath(self.source).parent / "database")
