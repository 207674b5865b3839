"""The claims of a run from the words of claims.yaml, and their verdicts as tables of text."""

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from dphrl.config.blocks.evaluation import EndpointConfig
from dphrl.evaluation.claims import PASS, SUPPORTED, UNDECIDED, VERDICTS, Claim
from dphrl.evaluation.interval import FEWEST_CLUSTERS
from dphrl.evaluation.names import BASE
from dphrl.report.headline import difference_text, in_words, interval_text, value_text
from dphrl.report.methods import phrase
from dphrl.report.text_tables import Cell, Table
from dphrl.text import probability

_HEADS = ("Claim", "On", "Difference", "p", "Of each training", "Verdict")
_TITLES = {
    True: ("Primary claims", "Tests have Holm's correction, intervals have none."),
    False: ("Other claims", "They are exploratory: nothing is corrected for their number."),
}


def claims_of_run(endpoints: Sequence[EndpointConfig], elsewhere: Collection[str]) -> list[Claim]:
    """The primary endpoints of the configuration, the claims of the paper, and those about models made elsewhere.

    Without endpoints, those of pass@8 in domain are primary.

    Args:
        elsewhere: models that were made elsewhere, with or without the base.
    """
    words = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    claims = []
    for endpoint in endpoints:
        where = f"{endpoint.dataset}, {endpoint.level}" if endpoint.level else endpoint.dataset
        sides = _named(endpoint.method, endpoint.against)
        sentence = words["endpoint"][endpoint.relation].format(**sides, metric=in_words(endpoint.metric), where=where)
        keys = endpoint.model_dump() | {"level": endpoint.level or ""}
        claims.append(Claim(sentence=sentence, role=None, source="registered", primary=True, **keys))
    others = sorted({*elsewhere} - {BASE} - {method for entry in words["paper"] for method in entry["methods"]})
    for entry in [*words["paper"], {**words["elsewhere"], "methods": others}]:
        for method, against, role in product(entry["methods"], entry["against"], entry["roles"]):
            sentence = entry["sentence"].format(**_named(method, against), where=words["roles"][role])
            keys = {name: entry[name] for name in ("relation", "metric", "source")}
            primary = not endpoints and entry["metric"] == PASS and role == "in_domain"
            claims.append(Claim(sentence=sentence, method=method, against=against, role=role, primary=primary, **keys))
    return claims


def _named(method: str, against: str) -> dict[str, str]:
    """Both sides of a claim in a sentence; `method` begins it."""
    ours = phrase(method)
    return {"method": f"{ours[0].upper()}{ours[1:]}", "against": phrase(against)}


def claim_tables(claims: pl.DataFrame) -> Iterator[Table]:
    """The primary claims, then the others; empty tables are left out.

    p is shown where a claim has several trainings: over the questions of one it says nothing about a method.
    """
    several = bool((claims["seeds"] > 1).any())
    heads = [head for head in _HEADS if several or head not in ("p", "Of each training")]
    for primary, (title, corrected) in _TITLES.items():
        rows = claims.filter(primary=primary)
        if rows.is_empty():
            continue
        counts = ", ".join(f"{rows.filter(verdict=word).height} {word}" for word in VERDICTS)
        caption = f"{counts}. Differences of shares are in points, with 95 % intervals. {corrected}"
        shown = [dict(zip(_HEADS, _row(row), strict=True)) for row in rows.iter_rows(named=True)]
        yield Table(title, caption, heads, [[row[head] for head in heads] for row in shown])


def claims_in_one(claims: pl.DataFrame) -> Table:
    """All claims in one table, as files have it."""
    tables = list(claim_tables(claims))
    heads = tables[0].heads if tables else _HEADS
    return Table("Claims", "", heads, [row for table in tables for row in table.rows])


def _row(row: dict[str, Any]) -> list[Cell]:
    where = ", ".join(filter(None, (row["dataset"], row["level"])))
    measured, _, interval = interval_text(row).partition(" ")
    if row["of_trainings"] is not None:
        parts = (value_text(row["metric"], row[part]) for part in ("of_trainings", "of_questions"))
        interval += "; {} from trainings, {} from questions".format(*parts)
    permuted = row["p_permutation"]
    return [
        (row["sentence"], row["source"]),
        (where, in_words(row["metric"])),
        (measured, interval),
        (
            probability(row["p_corrected"]) if row["seeds"] > 1 else "-",
            "" if permuted is None else f"trainings permuted, one test: {probability(permuted)}",
        ),
        ", ".join(difference_text(row["metric"], value) for value in row["trainings"]) or "-",
        (row["verdict"], "; ".join(_remarks(row))),
    ]


def _remarks(row: dict[str, Any]) -> Iterator[str]:
    """Remarks on a verdict: its limits, and how an open verdict can be decided."""
    margin = value_text(row["metric"], row["margin"])
    if row["verdict"] == SUPPORTED and row["relation"] != "equal" and abs(row["difference"]) < row["margin"]:
        yield f"smaller than the margin of {margin}"
    if row["verdict"] == UNDECIDED:
        needed = {"seeds": row["seeds_needed"], "questions": row["questions_needed"]}
        ways = " or ".join(f"{number} {name}" for name, number in needed.items() if number is not None)
        yield f"needs {ways}" if ways else "needs more trainings" if row["seeds"] < 2 else f"the margin is {margin}"
    if row["clusters"] is not None and row["clusters"] < FEWEST_CLUSTERS:
        yield f"only {row['clusters']} databases"
