"""The verdict on each claim: what is claimed is fixed in `paper_claims` and the configuration, the rest is measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.comparisons import UNTRAINED, average_of, holm
from dphrl.evaluation.crossed import Estimate, Floats, detectable, sizes_needed
from dphrl.evaluation.names import numbered
from dphrl.evaluation.paper_claims import PASS, REGISTERED, Claim, registered

VERDICTS = SUPPORTED, CONTRADICTED, EQUIVALENT, UNDECIDED = SCHEMAS["claims"].enums["verdict"]
# The level of the tests and of the two one-sided tests of equivalence.
LEVEL = 0.05
# Of an average over datasets, what a claim about each of them means.
_AVERAGED = {PASS: "pass@k", "greedy": "mean"}


def claims(
    comparisons: pl.DataFrame, levels: pl.DataFrame, roles: Mapping[str, str], rules: ClaimsConfig
) -> pl.DataFrame:
    """Each claim with what was measured, primary ones first; claims about methods that were not compared are left out.

    A claim of a direction is supported (contradicted) where the corrected test finds a difference on (against) the
    claimed side; else equivalent where the 90 % interval lies within the margin; else undecided. A claim of equality is
    supported where the 90 % interval lies within the margin, contradicted where the 95 % interval lies outside it, else
    undecided. With fewer than `rules.min_seeds` seeds, or where nothing varies, it is undecided.

    Args:
        comparisons, levels: the tables "comparisons" and "comparisons_levels".
        roles: of the datasets.
        rules: how claims are decided, and the primary endpoints.

    Returns:
        The table "claims". `p_corrected` is Holm's over the primary claims, Benjamini and Hochberg's over the others.
        A primary or undecided claim has the smallest difference that its test finds with 80 % power; an undecided one
        also the seeds (with these questions) and questions (with these seeds) with which that difference would be the
        margin, null where no number is enough.

    Raises:
        ValueError: a primary endpoint of the configuration was not measured.
    """
    found = []
    for claim in registered(rules.primary):
        rows = list(_measured(claim, comparisons, levels, roles))
        if not rows and claim.source == REGISTERED:
            _refuse(claim, comparisons if claim.level is None else levels)
        found += rows
    found.sort(key=lambda row: not row["primary"])
    for primary, correct in ((True, holm), (False, _benjamini_hochberg)):
        # Two one-sided tests need no correction: a claim of equality is supported where both find it.
        family = [row for row in found if row["primary"] == primary and row["relation"] != "equal"]
        for row, p in zip(family, correct(np.array([row["p"] for row in family], dtype=np.float64)), strict=True):
            judge(row, float(p), rules, LEVEL / len(family) if primary else LEVEL)
    for row in found:
        if row["relation"] == "equal":
            judge(row, np.nan, rules, LEVEL)
    return SCHEMAS["claims"].frame([{name: row[name] for name in SCHEMAS["claims"].columns} for row in found])


def _measured(
    claim: Claim, comparisons: pl.DataFrame, levels: pl.DataFrame, roles: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The rows of a claim: its numbers, and what the table says of the claim itself."""
    pair = comparisons.filter(method=claim.method, against=claim.against)
    if claim.level is not None:
        pair = levels.filter(level=claim.level, method=claim.method, against=claim.against)
    members = [name for name, role in roles.items() if role == claim.role]
    average = [] if claim.role is None else [average_of(claim.role)]
    wanted = [claim.dataset] if claim.dataset is not None else members
    if not pair.filter(pl.col("dataset").is_in(average), metric=_AVERAGED.get(claim.metric, "")).is_empty():
        wanted = average
    for dataset in wanted:
        here = pair.filter(dataset=dataset)
        metric = _metric(claim.metric, here["metric"].to_list())
        for numbers in here.filter(metric=metric).iter_rows(named=True):
            yield {"claim": claim.name, "sentence": claim.sentence, **vars(claim), **numbers}


def _refuse(claim: Claim, measured: pl.DataFrame) -> None:
    known = measured.filter(dataset=claim.dataset, method=claim.method, against=claim.against)
    levels = f" of level {claim.level}" if claim.level is not None else ""
    raise ValueError(
        f"evaluate.claims.primary: {claim.metric} of {claim.method} against {claim.against} on {claim.dataset}{levels}"
        f" was not measured; measured are {', '.join(sorted(set(known['metric']))) or 'no metrics of this pair there'}"
    )


def _metric(name: str, measured: Sequence[str]) -> str:
    """The metric of a dataset, or of an average, that a claim means."""
    if name in measured:
        return name
    start, at, most = name.partition("@")
    if name == PASS or (at and not most):
        below = [k for k in numbered(measured, f"{start}@") if not most or k <= int(most)]
        if below:
            return f"{start}@{below[-1]}"
    return _AVERAGED.get(name, name)


def judge(row: dict[str, Any], p: float, rules: ClaimsConfig, level: float) -> None:
    """Add the verdict, what a primary claim could have found, and what would decide an undecided one.

    Args:
        row: primary, relation and the columns of "comparisons".
        p: the corrected p value; NaN for a claim of equality.
        rules: how claims are decided.
        level: of the test, for what it could have found.
    """
    margin = rules.margin_counts if row["metric"].startswith("distinct_") else rules.margin
    directed = row["relation"] != "equal"
    row |= {"p_corrected": p if p == p else None, "margin": margin, "verdict": UNDECIDED}
    row |= dict.fromkeys(("detectable", "seeds_needed", "questions_needed"))
    seeds = [row["seeds"], *([] if row["against"] in UNTRAINED else [row["seeds_against"]])]
    if row["error"] is None or min(seeds) < rules.min_seeds:
        return
    found = Estimate(row["difference"], row["error"], row["freedom"])
    # The two one-sided tests at LEVEL are this interval's.
    inside = max(map(abs, found.interval(1.0 - 2.0 * LEVEL))) < margin
    low, high = found.interval(1.0 - LEVEL)
    if directed and p <= LEVEL:
        row["verdict"] = SUPPORTED if (found.value > 0) == (row["relation"] == "higher") else CONTRADICTED
    elif directed:
        row["verdict"] = EQUIVALENT if inside else UNDECIDED
    elif inside:
        row["verdict"] = SUPPORTED
    elif low > margin or high < -margin:
        row["verdict"] = CONTRADICTED
    undecided = row["verdict"] == UNDECIDED
    if undecided or row["primary"]:
        row["detectable"] = detectable(found.error, found.freedom, level)
    if not undecided:
        return
    parts = (row["of_seeds"], row["of_questions"], row["of_both"])
    # Of several base models the parts are not known.
    if None not in parts:
        needed = sizes_needed(parts, found.freedom, row["seeds"], row["questions"], margin, level)
        row |= zip(("seeds_needed", "questions_needed"), needed, strict=True)


def _benjamini_hochberg(p: Floats) -> Floats:
    # Slow to import, and not needed for the other tables.
    from scipy.stats import false_discovery_control

    corrected = np.full_like(p, np.nan)
    known = ~np.isnan(p)
    corrected[known] = false_discovery_control(p[known])
    return corrected
