"""The claims and their measurements as text: as Markdown, and in pieces for the page."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from dphrl.evaluation.claims import LEVEL, SUPPORTED, UNDECIDED, VERDICTS
from dphrl.evaluation.crossed import FEWEST_CLUSTERS
from dphrl.report.headline import in_words
from dphrl.report.text import markdown_table

HEADS = ("Claim", "Dataset", "Metric", "Difference [95 %]", "p", "Seeds", "Trainings", "Verdict")
_CELLS = ("sentence", "where", "metric", "measured", "chance", "seeds", "each", "decided")
_NEEDED = ("seeds_needed", "questions_needed")
_TITLES = {True: "Primary endpoints", False: "Other claims"}
_NO_INTERVAL = "no interval: all questions agree"
_CORRECTED = {True: "Holm's", False: "Benjamini and Hochberg's"}


def claims_markdown(found: pl.DataFrame) -> str:
    """The table "claims" as Markdown: the primary endpoints, then the other claims.

    Differences of proportions are in percentage points, others as they are.
    """
    sections = ["# Claims\n"]
    for title, note, rows in claim_tables(found):
        cells = [[row[name] for name in _CELLS] for row in rows]
        sections.append(f"## {title}\n\n{note}\n\n{markdown_table([HEADS, *cells], 'lllrrrll')}")
    if found.is_empty():
        sections.append("No methods were compared, so no claim was measured.\n")
    return "\n".join(sections)


def claim_tables(found: pl.DataFrame) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Title, how to read it, and rows of the primary endpoints and of the other claims, where there are any.

    A row has as text, in addition to its columns: where, measured, chance and decided; and its metric in words.
    """
    for primary, title in _TITLES.items():
        rows = [{**row, **_texts(row)} for row in found.filter(primary=primary).iter_rows(named=True)]
        if rows:
            counts = ", ".join(f"{sum(row['verdict'] == one for row in rows)} {one}" for one in VERDICTS)
            yield title, f"{counts}. p is {_CORRECTED[primary]} over these claims; intervals are not corrected.", rows


def difference(metric: str, value: float | None, sign: str = "+") -> str:
    """A difference as text: of proportions in percentage points, of counts as it is; "-" for none."""
    if value is None:
        return "-"
    return f"{value:{sign}.2f}" if metric.startswith("distinct_") else f"{100 * value:{sign}.1f}"


def interval(row: dict[str, Any]) -> str:
    """The difference of a row with its interval."""
    value, low, high = (difference(row["metric"], row[name]) for name in ("difference", "low", "high"))
    return f"{value} [{low}, {high}]" if row["low"] is not None else f"{value}, {_NO_INTERVAL}"


def chance(p: float | None) -> str:
    """A p value as text."""
    return "-" if p is None else f"{p:.3f}".replace("0.000", "< 0.001")


def _texts(row: dict[str, Any]) -> dict[str, str]:
    where = row["dataset"] if row["level"] is None else f"{row['dataset']}, {row['level']}"
    texts = {"where": where, "metric": in_words(row["metric"]), "measured": interval(row)}
    return {**texts, "chance": chance(row["p_corrected"]), "each": _trainings(row), "decided": _decided(row)}


def _decided(row: dict[str, Any]) -> str:
    """The verdict with what limits it."""
    remarks = []
    size = difference(row["metric"], row["margin"], sign="")
    if row["verdict"] == SUPPORTED and row["relation"] != "equal" and abs(row["difference"]) < row["margin"]:
        remarks.append(f"smaller than the margin of {size}")
    if row["detectable"] is not None:
        remarks.append(f"this run finds {difference(row['metric'], row['detectable'], sign='')} in 80 % of cases")
    if row["verdict"] == UNDECIDED and row["detectable"] is None:
        remarks.append("too few seeds" if row["low"] is not None else _NO_INTERVAL)
    elif row["verdict"] == UNDECIDED and row["detectable"] <= row["margin"]:
        # The run is large enough; the difference is too near the margin.
        remarks.append(f"the 90 % interval reaches beyond the margin of {size}")
    elif row["verdict"] == UNDECIDED:
        enough = [f"{row[name]} {name.partition('_')[0]}" for name in _NEEDED if row[name] is not None]
        remarks.append(f"{size} needs {' or '.join(enough) or 'more seeds and more questions'}")
    if row["clusters"] is not None and row["clusters"] < FEWEST_CLUSTERS:
        holds = "the questions are on" if row["verdict"] == UNDECIDED else "for these"
        remarks.append(f"{holds} {row['clusters']} databases only")
    return "; ".join([row["verdict"], *remarks])


def _trainings(row: dict[str, Any]) -> str:
    """The difference of each training, how many fall below the margin, and the limit of their agreement."""
    values = row["trainings"] or []
    if len(values) < 2:
        return "-"
    each = ", ".join(difference(row["metric"], value) for value in values)
    low, high = (f"{100 * row[name]:.0f}" for name in ("fell_low", "fell_high"))
    text = f"{each}; {row['fell']} of {len(values)} fell below the margin [{low}, {high} %]"
    if len({value > 0 for value in values}) > 1:
        return text
    others = 100 * (1.0 - LEVEL ** (1.0 / len(values)))
    return f"{text}; all agree, and {others:.0f} % of other trainings could still do otherwise"
