"""Rows of the table "comparisons" with made-up numbers."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from scipy.special import stdtr

from dphrl.store.catalogue import SCHEMAS


def comparison(difference: float = 0.03, error: float = 0.01, freedom: float = 20.0, **other: Any) -> dict[str, Any]:
    """A row, by default of DPH-F and GRPO over three seeds each; p is that of the t test."""
    row = {"level": "", "dataset": "d", "metric": "pass@16", "method": "dph_f", "against": "grpo"}
    row |= {"difference": difference}
    row |= {"low": difference - 2 * error, "high": difference + 2 * error, "p_permutation": None}
    row |= {"error_trainings": error, "freedom_trainings": freedom, "error_questions": 0.0, "freedom_questions": None}
    row |= {"p": 2 * float(stdtr(freedom, -abs(difference) / error)), "seeds": 3, "seeds_against": 3}
    row |= {"questions": 300, "clusters": None}
    row |= {"trainings": [difference] * other.get("seeds", 3)}
    return row | other


def compared(*rows: Mapping[str, Any]) -> pl.DataFrame:
    """The table with these rows, or with the rows of `comparison` that have these keys."""
    return SCHEMAS["comparisons"].frame([comparison(**row) if "p" not in row else row for row in rows])
