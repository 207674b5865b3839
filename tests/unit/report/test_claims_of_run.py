"""The claims as a reader sees them."""

import pytest
from made_comparisons import comparison

from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import judged
from dphrl.report.claims import claim_tables, claims_in_one, claims_of_run
from dphrl.store.catalogue import SCHEMAS

ROLES = {"d": "in_domain", "out_of": "cross_domain"}


def table(*rows, **rules):
    claims = claims_of_run((), ())
    return judged(claims, SCHEMAS["comparisons"].frame(list(rows)), ROLES, ClaimsConfig(**rules))


TABLE = table(
    comparison(0.10, metric="pass@8"),
    comparison(0.03, 0.03, metric="pass@8", dataset="out_of"),
    comparison(-0.5, 0.1, metric="distinct_styles"),
)


def test_there_is_a_row_for_each_claim():
    claimed = claims_in_one(TABLE)
    rows = [dict(zip(claimed.heads, row, strict=True)) for row in claimed.rows]
    assert [(row["On"], row["Difference"], row["Verdict"][0]) for row in rows] == [
        (("d", "pass@8"), ("+10.0", "[+8.0, +12.0]; 2.1 from trainings, 0.0 from questions"), "supported"),
        (("out_of", "pass@8"), ("+3.0", "[-3.0, +9.0]; 6.3 from trainings, 0.0 from questions"), "undecided"),
        (("d", "styles"), ("-0.50", "[-0.70, -0.30]; 0.21 from trainings, 0.00 from questions"), "contradicted"),
    ]
    assert rows[0]["p"][0] == "< 0.001"
    assert [row for table in claim_tables(TABLE) for row in table.rows] == claimed.rows


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        (comparison(0.02, 0.001, metric="pass@8"), "smaller than the margin of 5.0"),
        (comparison(0.2, metric="pass@8", clusters=4), "only 4 databases"),
        (comparison(0.2, metric="pass@8", seeds=1), "needs more trainings"),
    ],
)
def test_a_verdict_says_what_limits_it(row, limit):
    (claimed,) = claim_tables(table(row))
    assert limit in claimed.rows[0][-1][1]


def test_one_training_of_each_method_has_no_p():
    (claimed,) = claim_tables(table(comparison(0.2, metric="pass@8", seeds=1)))
    assert "p" not in claimed.heads


def test_without_comparisons_there_is_no_claim():
    assert list(claim_tables(table())) == []
    assert claims_in_one(table()).rows == []
