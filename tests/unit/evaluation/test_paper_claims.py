"""A claim that is attributed to the paper holds in the paper's own tables, or is listed as one that does not."""

from functools import cache

import polars as pl
import pytest

from dphrl.evaluation.claims import PASS
from dphrl.evaluation.names import UNTRAINED
from dphrl.report.claims import claims_of_run
from dphrl.report.published import AVERAGE, read_published

CLAIMS = claims_of_run((), ())
SQL = {"bird": "in_domain", "spider": "cross_domain"}
# What the datasets of a setting are to its training set; those of mathematics are averaged.
ROLES = {"llama-sql": SQL, "omnisql-sql": SQL, "llama-sql-maths": "out_of_domain", "llama-math": "in_domain"}
ROLES["qwen-math"] = "in_domain"
MARGIN = 0.05
# Claims that a table of the paper contradicts: by name and published setting, its numbers in per cent.
NOT_BORNE_OUT = {
    ("rkl_lower_pass@8_base_in_domain", "llama-sql"): (69.80, 68.80),
    ("dph_f_higher_pass@8_base_in_domain", "llama-math"): (54.44, 55.06),
    ("dph_js_higher_pass@8_base_in_domain", "llama-math"): (54.23, 55.06),
    ("grpo_lower_pass@8_base_in_domain", "qwen-math"): (67.71, 65.39),
    ("dapo_lower_pass@8_base_in_domain", "qwen-math"): (67.97, 65.39),
    ("rkl_lower_pass@8_base_in_domain", "qwen-math"): (68.01, 65.39),
    ("dph_f_higher_greedy_grpo_in_domain", "qwen-math"): (41.39, 41.43),
    ("dph_f_higher_greedy_dapo_in_domain", "qwen-math"): (41.39, 41.70),
}


@cache
def published_points(setting):
    """Method, dataset, metric and value of each published cell, a proportion; without averages."""
    cells = [
        (method, *column.split(" "), value / 100)
        for table in read_published(setting)
        for method, values in table["rows"].items()
        for column, value in zip(table["columns"], values, strict=True)
        if value is not None and column != AVERAGE
    ]
    return pl.DataFrame(cells, schema=["method", "dataset", "metric", "value"], orient="row")


def value(setting, claim, method):
    """The published value that a claim is about; None where the paper has none."""
    points = published_points(setting).filter(method=method)
    roles = ROLES[setting]
    if isinstance(roles, str):
        start = {PASS: "pass@", "greedy": "mean"}.get(claim.metric)
        if roles != claim.role or start is None:
            return None
        return points.filter(pl.col("metric").str.starts_with(start))["value"].mean()
    here = [name for name, role in roles.items() if role == claim.role]
    found = points.filter(pl.col("dataset").is_in(here), metric=claim.metric)
    return found["value"].item() if found.height else None


def holds(claim, ours, theirs):
    match claim.relation:
        case "higher":
            return ours > theirs
        case "lower":
            return ours < theirs
    return abs(ours - theirs) < MARGIN


def measured():
    for setting in ROLES:
        for claim in CLAIMS:
            ours, theirs = (value(setting, claim, method) for method in (claim.method, claim.against))
            if claim.source != "control" and ours is not None and theirs is not None:
                yield setting, claim, ours, theirs


def test_each_claim_holds_in_the_papers_tables_or_is_listed_with_its_numbers():
    failing = {
        (claim.name, setting): pytest.approx((100 * ours, 100 * theirs), abs=0.006)
        for setting, claim, ours, theirs in measured()
        if not holds(claim, ours, theirs)
    }
    assert failing == NOT_BORNE_OUT


def test_most_claims_are_in_some_table():
    tabled = {claim.name for _, claim, *_ in measured()}
    untabled = {claim.metric for claim in CLAIMS if claim.name not in tabled and claim.source != "control"}
    assert untabled == {"keep@", "explore@", "distinct_styles"}


def test_names_and_sentences_are_distinct():
    assert len({claim.name for claim in CLAIMS}) == len({claim.sentence for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.method not in UNTRAINED for claim in CLAIMS)
