"""Files of samples of made-up models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dphrl.data.sample_files import SampleFile
from dphrl.data.sample_formats import COLUMNS

_SCHEMA = {"question_id": pl.String, "question": pl.String, "sample_index": pl.Int32, "text": pl.String}


def sample_file(
    name: str,
    answers: Mapping[str, Sequence[str]],
    right: str = "+",
    settings: Mapping[str, str] | None = None,
    **columns: Any,
) -> SampleFile:
    """A file with the responses to each question; a response that starts with `right` is right.

    Args:
        columns: further columns: by question id, or one value.
    """
    rows = [(key, key.upper(), index, text) for key, texts in answers.items() for index, text in enumerate(texts)]
    frame = pl.DataFrame(rows, _SCHEMA, orient="row")
    frame = frame.with_columns(correct=pl.col("text").str.starts_with(right))
    for column in ("gold", "cluster", "truncated", *columns):
        given = columns.get(column)
        if isinstance(given, Mapping):
            frame = frame.with_columns(pl.col("question_id").replace_strict(given, default=None).alias(column))
        else:
            frame = frame.with_columns(pl.lit(given).alias(column))
    frame = frame.select(pl.col(name).cast(dtype) for name, dtype in COLUMNS.items())
    return SampleFile(Path(f"{name}.jsonl"), "plain", frame, dict(settings or {}), ())


def drawn_file(name: str, rates: Sequence[float], n: int, seed: int, ways: int = 4, **columns: Any) -> SampleFile:
    """A file of a model that is right with these chances, in so many equally frequent ways."""
    random = np.random.default_rng(seed)
    return sample_file(
        name,
        {
            f"q{number:04}": [
                f"{'+' if one < rate else '-'} way {way}"
                for one, way in zip(random.random(n), random.integers(0, ways, n), strict=True)
            ]
            for number, rate in enumerate(rates)
        },
        **columns,
    )
