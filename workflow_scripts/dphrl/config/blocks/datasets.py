"""The block `datasets`: files of questions and their tasks."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field

from dphrl.config.blocks.base import Block, Text
from dphrl.config.scorers import Comparison, MathAnswer, SqlAnswer

SQL, MATH = "sql", "math"
TOY = "toy"
OptionalDrop = Literal["empty", "nondeterministic", "order-ambiguous", "constant", "text-only", "conflicting"]
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
        description="sql (the answer is a query, which is run), math (the answer is a value, which is compared), or "
        "the name of a custom scorer under scoring.custom.",
        examples=["sql"],
    )
    source: Text = Field(
        description="Path of a JSONL, JSON or parquet file (docs/datasets.md lists the layouts that need no "
        "`fields`); or toy: the questions of this name in the block `toy`.",
        examples=["data/bird_train.jsonl"],
    )
    fields: dict[FieldName, str | Annotated[list[str], Field(min_length=2)]] = Field(
        {},
        description="Names of fields that the file calls something else, for instance {question: query_text}; a list: "
        "the texts of these fields, joined by a blank, for instance {question: [Body, Question]}.",
    )
    databases: Text | None = Field(
        None,
        description="For task sql: the folder of the databases, <db_id>/<db_id>.sqlite; null: the folder `database` "
        "next to the source, as in the Spider and BIRD releases.",
    )
    comparison: Comparison | None = Field(
        None, description="Comparison of results for all rows; null: by each row's `comparison`, else by scoring.sql."
    )
    answer: SqlAnswer | MathAnswer | None = Field(
        None,
        description="Where the answer is in a response, for tasks sql and math; null: scoring.<task>.answer. It can "
        "differ between training and evaluation.",
    )
    instruction: Text | None = Field(
        None,
        description="System message before the messages of each row; null: none, except for mathematical questions "
        "without messages, which get the instruction to put the final answer within \\boxed{}.",
    )
    drop: tuple[OptionalDrop, ...] = Field(
        ("empty", "nondeterministic", "conflicting"),
        description="Gold answers that are excluded, in addition to those that do not run: empty (no rows), "
        "nondeterministic (random(), date('now')), order-ambiguous (the result depends on the order in which SQLite "
        "reads a table), constant (a fixed wrong answer such as 0=1 is right), text-only (only its text is right), "
        "conflicting (rows with the same prompt disagree). Findings not listed are only reported.",
    )

    @property
    def database_folder(self) -> str | None:
        """The folder of the databases; `toy` for those of the block `toy`; None where the task needs none."""
        if self.task != SQL:
            return None
        if self.source == TOY:
            return TOY
        return self.databases or str(PurePath(self.source).parent / "database")
