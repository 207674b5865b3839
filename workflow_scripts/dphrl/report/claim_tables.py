"""The claims of a run with what was measured, as text."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from dphrl.evaluation.claims import SUPPORTED, UNDECIDED, VERDICTS
from dphrl.evaluation.interval import FEWEST_CLUSTERS
from dphrl.report.headline import difference_text, in_words, interval_text, value_text
from dphrl.report.text_tables import Cell, Table
from dphrl.text import probability

_TITLES = {True: ("Primary endpoints", "Holm"), False: ("Other claims", "Benjamini and Hochberg")}


def claim_tables(claims: pl.DataFrame) -> Iterator[Table]:
    """The primary endpoints, then the other claims; empty tables are left out.

    p is shown where a claim has several trainings: over the questions of one it says nothing about a method.
    """
    several = _several(claims)
    for primary, (title, correction) in _TITLES.items():
        rows = claims.filter(primary=primary)
        if rows.is_empty():
            continue
        counts = ", ".join(f"{rows.filter(verdict=word).height} {word}" for word in VERDICTS)
        caption = f"{counts}. Differences of shares are in points, with 95 % intervals."
        if several:
            caption += f" p is corrected by {correction}; intervals are not."
        yield Table(title, caption, _heads(several), [_row(row, several) for row in rows.iter_rows(named=True)])


def claims_in_one(claims: pl.DataFrame) -> Table:
    """All claims in one table, as files have it."""
    tables = list(claim_tables(claims))
    caption = " ".join(f"{table.title}: {table.caption}" for table in tables)
    return Table("Claims", caption, _heads(_several(claims)), [row for table in tables for row in table.rows])


def _several(claims: pl.DataFrame) -> bool:
    return bool((claims["seeds"] > 1).any())


def _heads(several: bool) -> list[str]:
    return ["Claim", "On", "Difference", *(["p", "Of each training"] if several else []), "Verdict"]


def _row(row: dict[str, Any], several: bool) -> list[Any]:
    where = row["dataset"] if row["level"] is None else f"{row['dataset']}, {row['level']}"
    each = ", ".join(difference_text(row["metric"], value) for value in row["trainings"] or [])
    corrected = probability(row["p_corrected"]) if row["seeds"] > 1 else "-"
    permuted = row["p_permutation"]
    note = "" if permuted is None else f"trainings permuted, one test: {probability(permuted)}"
    of_trainings: list[Cell] = [(corrected, note), each or "-"] if several else []
    measured, _, interval = interval_text(row).partition(" ")
    if row["of_trainings"] is not None:
        parts = (value_text(row["metric"], row[part]) for part in ("of_trainings", "of_questions"))
        interval += "; {} from trainings, {} from questions".format(*parts)
    return [
        (row["sentence"], row["source"]),
        (where, in_words(row["metric"])),
        (measured, interval),
        *of_trainings,
        (row["verdict"], "; ".join(_remarks(row))),
    ]


def _remarks(row: dict[str, Any]) -> Iterator[str]:
    """What limits a verdict, and what would decide an open one."""
    margin = value_text(row["metric"], row["margin"])
    if row["verdict"] == SUPPORTED and row["relation"] != "equal" and abs(row["difference"]) < row["margin"]:
        yield f"smaller than the margin of {margin}"
    if row["verdict"] == UNDECIDED:
        needed = {"seeds": row["seeds_needed"], "questions": row["questions_needed"]}
        ways = " or ".join(f"{number} {name}" for name, number in needed.items() if number is not None)
        yield f"needs {ways}" if ways else "needs more trainings" if row["seeds"] < 2 else f"the margin is {margin}"
    if row["clusters"] is not None and row["clusters"] < FEWEST_CLUSTERS:
        yield f"only {row['clusters']} databases"
