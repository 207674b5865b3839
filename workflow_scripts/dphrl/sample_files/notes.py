"""What is odd in a table of samples, as sentences for the user."""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from dphrl.config.errors import show

# A model that samples hardly writes a text of this length twice.
_LONG: Final = 200
_NAMED: Final = 3


def notes_of(rows: pl.DataFrame, extracted: bool = False) -> Iterator[str]:
    """Notes on the samples of a file; `sample_index` is still the file's, null where it has none.

    Args:
        extracted: texts are extracted answers, of which copies are no surprise.
    """
    total = f"{rows.height:,} responses"
    empty = int(rows["text"].str.strip_chars().eq("").sum())
    if empty:
        yield f"{empty:,} of {total} {'have no extracted answer' if extracted else 'are empty'}"
    unjudged = rows["correct"].null_count()
    if 0 < unjudged < rows.height:
        yield f"{unjudged:,} of {total} have no verdict"
    repeated = int(rows.select("question_id", "sample_index").drop_nulls().is_duplicated().sum())
    if repeated:
        yield f"{repeated:,} rows have the sample_index of another row of the question: was a file joined with itself?"
    long = rows.filter(pl.col("text").str.len_bytes() >= _LONG)
    copies = long.height - long.select(pl.struct("question_id", pl.col("text").hash()).n_unique()).item()
    if copies and not extracted:
        yield (
            f"{copies:,} of {total} are exact copies of an earlier one to the same question, {_LONG} bytes or longer: "
            "was a file joined with itself, or was the temperature 0?"
        )
    pairs = rows.select("question_id", "question").unique(maintain_order=True)
    mixed = _repeated(pairs, "question_id")
    if mixed:
        yield f"{len(mixed):,} question ids have more than one question: {_first(mixed)}"
    same = _repeated(pairs.filter(pl.col("question") != ""), "question")
    if same:
        yield f"{len(same):,} questions have more than one id: {_first(same)}"


def _repeated(pairs: pl.DataFrame, column: str) -> list[str]:
    """Values of a column that are in more than one pair."""
    counts = pairs.group_by(column, maintain_order=True).len()
    return counts.filter(pl.col("len") > 1)[column].to_list()


def _first(values: Sequence[str]) -> str:
    named = ", ".join(show(value, 60) for value in values[:_NAMED])
    return f"{named}, ..." if len(values) > _NAMED else named
