"""What it would cost the embedded default's base model to keep one reading of the ambiguous questions."""

import json
from collections import Counter
from pathlib import Path

import polars as pl

from dphrl.artifacts.tables import read_table
from dphrl.layout.names import BASE


def collapse_cost(results: Path) -> str:
    """One sentence for the terminal; empty for a run without ambiguous questions in its in-domain test.

    A policy with one reading of "about" is right where the gold has that reading, at any k: at most on the share of the
    most frequent reading. The base's pass@k, at the largest k, is measured. `results` is the folder of a finished run.
    """
    table, questions = results / "tables/headline_levels.parquet", results / "toy/questions/in_domain.jsonl"
    rows = map(json.loads, questions.read_text(encoding="utf-8").splitlines() if questions.exists() else ())
    # An ambiguous gold ends with its radius.
    radii = Counter(row["gold_sql"].rpartition(" ")[2] for row in rows if row["level"] == "ambiguous")
    if not radii or not table.exists():
        return ""
    passes = read_table(table, "headline_levels").filter(
        pl.col("metric").str.starts_with("pass@"), method=BASE.method, dataset="in_domain", level="ambiguous"
    )
    if passes.is_empty():
        return ""
    k, value = max(
        (int(metric.removeprefix("pass@")), value) for metric, value in passes.select("metric", "value").rows()
    )
    one = max(radii.values()) / radii.total()
    return (
        f"What collapse would cost here: of the ambiguous questions of in_domain, which have several readings, the "
        f"base solves {100 * value:.1f} % within {k} samples; a policy with one reading left solves at most "
        f"{100 * one:.1f} %, {100 * (value - one):.1f} points less (docs/tutorial.md)."
    )
