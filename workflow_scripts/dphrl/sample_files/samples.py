"""A file of samples, whatever tool wrote it, as one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

# Columns of `SampleFile.rows`, in this order.
COLUMNS: Final[dict[str, pl.DataType]] = {
    "question_id": pl.String(),
    "question": pl.String(),
    "sample_index": pl.Int32(),
    "text": pl.String(),
    "correct": pl.Boolean(),
    "gold": pl.String(),
    "level": pl.String(),
    "truncated": pl.Boolean(),
}


class SampleFileError(ValueError):
    """A file of samples cannot be used; the text names the file, the line or row, and the field."""


@dataclass(frozen=True)
class SampleFile:
    """The samples of one model.

    `rows` has one row per sample, in file order within a question:
        question_id: the file's id as text, or a stable hash of the question's text where the file has none.
        question: text of the question, as it is in the file; "" where the file has none.
        sample_index: 0, 1, ... within the question.
        text: the whole response.
        correct: null where the file does not judge.
        gold: null where the file has none.
        level: level or category; null without.
        truncated: the response stopped at the length limit; null where the file does not say.
    `settings` is what the file says of temperature, top_p, max_tokens, grader and model; it may be empty.
    `notes` are sentences that the user should read: duplicates, rows without an answer.
    """

    path: Path
    format: str
    rows: pl.DataFrame
    settings: dict[str, str]
    notes: tuple[str, ...]


def read_samples(
    path: Path,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] = MappingProxyType({}),
    threshold: float | None = None,
) -> SampleFile:
    """Read a file of samples.

    Args:
        path: .jsonl, .json or .parquet.
        format: verl, trl, lm-eval, verifiers, qwen-math or plain; by default recognised by the file's fields.
        mapping: our name of a field -> the file's, for a file in a format of its own.
        threshold: a response is correct if its score is at least this; needed where scores are not 0 or 1.

    Raises:
        SampleFileError: the file is in no known format, or a row is not as its format has it.
    """
    raise NotImplementedError
