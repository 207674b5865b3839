"""The blocks `datasets`, `prompts` and `scoring`: questions, prompts, and the verdicts on responses."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from dphrl.config.blocks.base import Block, Count, Positive, Text
from dphrl.config.scorers import (
    THOUGHTS,
    Comparison,
    MathAnswer,
    MathComparison,
    MathDefaults,
    Partial,
    SqlAnswer,
    SqlDefaults,
    SqlRepair,
)

SQL, MATH = "sql", "math"
TOY = "toy"
OptionalDrop = Literal["empty", "order-ambiguous", "text-only", "conflicting"]
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
        "`fields`); or hf://datasets/ORG/NAME[@REVISION]/FILE, a file of the hub; or toy: the questions of this name "
        "in the block `toy`.",
        examples=["data/bird_train.jsonl"],
    )
    fields: dict[FieldName, str | Annotated[list[str], Field(min_length=2)]] = Field(
        {},
        description="Names of fields in the file, where they differ, for instance {question: query_text}; a list: the "
        "texts of these fields, joined by a blank, for instance {question: [Body, Question]}.",
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
    prefill: bool = Field(
        False,
        description="Whether a last turn of the assistant in `prompt` or `messages` begins the response. false: it is "
        "left out of the prompt, because it is the solution in most datasets.",
    )
    drop: tuple[OptionalDrop, ...] = Field(
        ("empty", "conflicting"),
        description="Gold answers that are excluded, in addition to those that do not run: empty (no rows), "
        "order-ambiguous (the result depends on the order in which SQLite reads a table), text-only (only its "
        "text is right), conflicting (rows with the same prompt disagree). Findings not listed are only reported.",
    )

    @property
    def database_folder(self) -> str | None:
        """Folder of the databases; `toy` for the databases of the block `toy`; None for a task without databases."""
        if self.task != SQL:
            return None
        if self.source == TOY:
            return TOY
        return self.databases or str(PurePath(self.source).parent / "database")


class PromptsConfig(Block):
    """Configuration of the block `prompts`."""

    template: Literal["plain", "chat"] = Field(
        "chat",
        description="chat: the chat template of the policy's tokenizer, with its generation prompt; plain: the "
        "concatenated contents of the messages, for a model without a template.",
    )
    max_tokens: Count = Field(16000, description="Maximum tokens of a prompt; longer ones are rejected as overlong.")


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
        "where m counts the gold columns in the answer (one_to_one: each answer column is matched at most once).",
    )
    repair: SqlRepair = Field(
        SqlDefaults.repair,
        description="Whether `> =`, `< =`, `! =` and YEAR(CURDATE()) are repaired in answers and golds before they "
        "are executed, as in the published reward and Spider's evaluation; BIRD's evaluation repairs nothing. auto: "
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
        description=r"boxed: the answer is the last \boxed{}; final: within the last <answer> or the like, if any, it "
        "is the last box, else the text after `####`, `A:` or `the answer is`, else the last expression.",
    )
    timeout_s: Positive = Field(MathDefaults.timeout_s, description="Time limit of a comparison in seconds.")
    memory_mib: int = Field(
        MathDefaults.memory_mib, ge=256, description="Memory limit (address space) of a worker in MiB."
    )


class CustomScoringConfig(Block):
    """A custom scorer (docs/scoring.md)."""

    source: Text = Field(description="Python file that registers a scorer of this name.", examples=["my_scorer.py"])
    options: dict[str, JsonValue] = Field({}, description="Arguments of the scorer's constructor.")
    workers: Count = Field(1, description="Number of cores of the scoring job.")


class ScoringConfig(Block):
    """Configuration of the block `scoring`."""

    thoughts: dict[Text, Text] = Field(
        THOUGHTS,
        description="Tags around the thoughts of a model: the end of each opening. The answer is what follows the last "
        "end; a thought without an end is no answer (docs/scoring.md). {}: the answer is the whole response.",
    )
    sql: SqlScoringConfig = Field(SqlScoringConfig(), description="Task sql.")
    math: MathScoringConfig = Field(MathScoringConfig(), description="Task math.")
    custom: dict[str, CustomScoringConfig] = Field(
        {}, description="Custom scorers by name; the `task` of a dataset selects a scorer by this name."
    )

    def of(self, task: str) -> SqlScoringConfig | MathScoringConfig | CustomScoringConfig:
        """The block of the scorer of a task."""
        if task in self.custom:
            return self.custom[task]
        return {"sql": self.sql, "math": self.math}[task]  # type: ignore[return-value]
