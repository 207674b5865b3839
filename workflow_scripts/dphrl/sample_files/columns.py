"""Columns of a table of samples, and the error of a file that cannot be read as one."""

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

# Further columns where a scorer of the workflow found which answers and programs are alike.
CLASSES: Final = ("answer_class", "program_class")


class SampleFileError(ValueError):
    """A file of samples cannot be used; the text names the file, the line or row, and the field."""
