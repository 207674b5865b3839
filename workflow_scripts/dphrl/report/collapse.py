"""What the policies of the embedded world solve of its ambiguous questions, and what one reading of them solves."""

import json
from collections import Counter
from pathlib import Path

import polars as pl

from dphrl.artifacts.tables import read_table
from dphrl.evaluation.names import numbered
from dphrl.report.names import in_order, label, last_steps


def ambiguous(results: Path) -> str:
    """A sentence for the terminal; empty for a run without ambiguous questions in its in-domain test.

    A policy with one reading of "about" is right where the gold has that reading, at any k: at most on the share of the
    most frequent reading. pass@k is measured, after the last step, a mean over seeds. `results` is the folder of a
    finished run.
    """
    table, questions = results / "tables/headline_levels.parquet", results / "toy/questions/in_domain.jsonl"
    rows = map(json.loads, questions.read_text(encoding="utf-8").splitlines() if questions.exists() else ())
    # An ambiguous gold ends with its radius.
    radii = Counter(row["gold_sql"].rpartition(" ")[2] for row in rows if row["level"] == "ambiguous")
    if not radii or not table.exists():
        return ""
    here = last_steps(read_table(table, "headline_levels").filter(dataset="in_domain", level="ambiguous"))
    k = max(numbered(here["metric"], "pass@"), default=0)
    means = dict(here.filter(metric=f"pass@{k}").group_by("method").agg(pl.col("value").mean()).iter_rows())
    if not means:
        return ""
    solved = ", ".join(f"{label(method)} {100 * means[method]:.1f}" for method in in_order(means))
    return (
        f"Ambiguous questions of in_domain, in per cent solved within {k} samples: {solved}. A policy that keeps one "
        f"reading solves at most {100 * max(radii.values()) / radii.total():.1f} (docs/decisions/the-world.md)."
    )
