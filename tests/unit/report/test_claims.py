"""The claims as a reader sees them."""

import polars as pl
import pytest
from made_comparisons import comparison

from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import claims
from dphrl.report.findings import claims_markdown
from dphrl.report.headline import difference_text
from dphrl.report.page_tables import claims_table
from dphrl.report.render import environment
from dphrl.store.catalogue import SCHEMAS

ROLES = {"d": "in_domain", "out_of": "cross_domain"}


def table(*rows, **rules):
    levels = SCHEMAS["comparisons_levels"].frame()
    return claims(SCHEMAS["comparisons"].frame(list(rows)), levels, ROLES, ClaimsConfig(**rules))


TABLE = table(
    comparison(0.10, metric="pass@8"),
    comparison(0.03, 0.03, metric="pass@8", dataset="out_of"),
    comparison(-0.5, 0.1, metric="distinct_styles"),
)


def claims_html(found):
    return environment().get_template("macros.html.j2").module.claims(claims_table(found))


def test_the_markdown_has_a_row_for_each_claim():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in claims_markdown(TABLE).splitlines()]
    decided = [(*row[1:4], row[-1].split(";")[0]) for row in rows if row and row[0].startswith("DPH-F")]
    assert decided == [
        ("d", "pass@8", "+10.0 [+8.0, +12.0]: 2.1 from trainings, 0.0 from questions", "supported"),
        ("out\\_of", "pass@8", "+3.0 [-3.0, +9.0]: 6.3 from trainings, 0.0 from questions", "undecided"),
        ("d", "styles", "-0.50 [-0.70, -0.30]: 0.21 from trainings, 0.00 from questions", "contradicted"),
    ]


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        (comparison(0.02, 0.001, metric="pass@8"), "smaller than the margin of 5.0"),
        (comparison(0.02, 0.01, metric="pass@8", seeds=2), "too few seeds"),
        (comparison(0.2, metric="pass@8", clusters=4), "for these 4 databases only"),
        (comparison(0.0, metric="pass@8"), "equivalence takes 5 trainings"),
        (comparison(0.2, metric="pass@8") | dict.fromkeys(("low", "high", "error", "p")), "no interval"),
    ],
)
def test_a_verdict_says_what_limits_it(row, limit):
    (_, _, (first,)) = claims_table(table(row))["tables"][0]
    assert limit in first["decided"]


def test_no_more_seeds_are_asked_for_where_a_difference_is_just_too_near_the_margin():
    equal = {"method": "dph_f", "against": "grpo", "relation": "equal", "metric": "pass@16", "dataset": "d"}
    (_, _, (first,)) = claims_table(table(comparison(0.043), primary=[equal]))["tables"][0]
    assert "the interval reaches beyond the margin" in first["decided"]
    assert "needs" not in first["decided"]


def test_the_page_has_a_row_for_each_claim():
    text = claims_html(TABLE)
    assert text.count('<th scope="row">') == TABLE.height
    assert "<td>+10.0 [+8.0, +12.0]: 2.1 from trainings, 0.0 from questions</td><td>&lt; 0.001</td><td>3</td>" in text


def test_without_comparisons_there_is_no_claim():
    assert "no claim was measured" in claims_html(table())
    assert "no claim was measured" in claims_markdown(table())


def test_a_dataset_cannot_become_markup():
    evil = "<img src=x onerror=alert(1)>"
    spoilt = TABLE.with_columns(dataset=pl.lit(evil), sentence=pl.lit(evil))
    assert "<img" not in claims_html(spoilt)
    assert "<img" not in claims_markdown(spoilt).replace("\\<", "")


def test_differences_have_a_sign_and_a_unit():
    assert difference_text("pass@8", 0.125) == "+12.5"
    assert difference_text("distinct_styles", -0.125) == "-0.12"
    assert difference_text("pass@8", None) == "-"
