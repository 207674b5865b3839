"""The claims and their measurements as text: as Markdown, and in pieces for the page."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from dphrl.evaluation.claims import VERDICTS
from dphrl.report.text import markdown_table

_HEADS = ("Dataset", "Metric", "Difference [interval]", "Seeds", "Verdict")


def claims_markdown(found: pl.DataFrame) -> str:
    """The table "claims" as Markdown: a section for each claim, with a row for each dataset.

    Differences of proportions are in percentage points, others as they are.
    """
    sections = [f"# Claims\n\nClaims by dataset: {claims_counted(found)}.\n"]
    for sentence, source, rows in by_claim(found):
        cells = [tuple(row[name] for name in ("dataset", "metric", "measured", "seeds", "verdict")) for row in rows]
        sections.append(f"## {sentence}\n\nFrom: {source}.\n\n{markdown_table([_HEADS, *cells], 'llrrl')}")
    return "\n".join(sections)


def claims_counted(found: pl.DataFrame) -> str:
    """The number of claims, by dataset, with each verdict."""
    return ", ".join(f"{(found['verdict'] == verdict).sum()} {verdict}" for verdict in VERDICTS)


def by_claim(found: pl.DataFrame) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Sentence, source and rows of each claim; a row has its measurement as text in addition."""
    for (sentence, source), rows in found.group_by("sentence", "source", maintain_order=True):
        yield str(sentence), str(source), [{**row, "measured": measured(row)} for row in rows.rows(named=True)]


def measured(row: dict[str, Any]) -> str:
    """The difference of a row with its interval, over seeds or prompts; "-" where nothing was compared."""
    if row["kind"] is None:
        return "-"
    value, low, high = (difference(row["metric"], row[name]) for name in ("difference", "low", "high"))
    # Equal differences, or a single one, have no spread to estimate.
    interval = "no interval" if row["low"] is None else f"{low}, {high}"
    return f"{value} [{interval}] over {row['kind']}"


def difference(metric: str, value: float | None) -> str:
    """A difference as text: of proportions in percentage points, of counts as it is; "-" for none."""
    if value is None:
        return "-"
    return f"{value:+.2f}" if metric.startswith("distinct_") else f"{100 * value:+.1f}"
