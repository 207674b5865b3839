"""The claims as a reader sees them."""

import polars as pl
import pytest
from made_comparisons import comparison

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import claims
from dphrl.pages.render import environment
from dphrl.report.answers import claims_markdown
from dphrl.report.headline import difference_text
from dphrl.report.page_tables import claims_table

ROLES = {"d": "in_domain", "out_of": "cross_domain"}


def table(*rows, **rules):
    levels = SCHEMAS["comparisons_levels"].frame()
    return claims(SCHEMAS["comparisons"].frame(list(rows)), levels, ROLES, ClaimsConfig(**rules))


EACH = (
    "{0}, {0}, {0}; 0 of 3 fell below the margin [0, 71 %]; all agree, and 63 % of other trainings could still do"
    " otherwise"
)
TABLE = table(
    comparison(0.10, metric="pass@8"),
    comparison(0.03, 0.03, metric="pass@8", dataset="out_of"),
    comparison(-0.5, 0.1, metric="distinct_styles"),
)


def claims_html(found):
    return environment().get_template("macros.html.j2").module.claims(claims_table(found))


def test_the_markdown_says_what_was_measured():
    lines = claims_markdown(TABLE).splitlines()
    assert lines[:5] == [
        "# Claims",
        "",
        "## Primary endpoints",
        "",
        "1 supported, 0 contradicted, 0 equivalent, 0 undecided. p is Holm's over these claims; intervals are not"
        " corrected.",
    ]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| DPH-F")]
    assert rows == [
        ["DPH-F has a higher pass@k than GRPO, in domain.", "d", "pass@8", "+10.0 [+8.0, +12.0]", "\\< 0.001", "3",
         EACH.format("+10.0"),
         "supported; this run finds 2.9 in 80 % of cases"],
        ["DPH-F has a higher pass@k than GRPO, on another benchmark of the task.", "out\\_of", "pass@8",
         "+3.0 [-3.0, +9.0]", "0.329", "3", EACH.format("+3.0"),
         "undecided; this run finds 8.8 in 80 % of cases; 5.0 needs 5 seeds or 1508 questions"],
        ["DPH-F shows more styles per question than GRPO, in domain.", "d", "styles",
         "-0.50 [-0.70, -0.30]", "\\< 0.001", "3",
         "-0.50, -0.50, -0.50; 3 of 3 fell below the margin [29, 100 %]; all agree, and 63 % of other trainings could"
         " still do otherwise", "contradicted"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            comparison(0.02, 0.001, metric="pass@8"),
            "supported; smaller than the margin of 5.0; this run finds 0.3 in 80 % of cases",
        ),
        (comparison(0.02, 0.01, metric="pass@8", seeds=2), "undecided; too few seeds"),
        (
            comparison(0.2, metric="pass@8", clusters=4),
            "supported; this run finds 2.9 in 80 % of cases; for these 4 databases only",
        ),
        (comparison(0.2, metric="pass@8", clusters=5), "supported; this run finds 2.9 in 80 % of cases"),
        (comparison(0.2, metric="greedy", clusters=5), "supported"),
        (
            comparison(0.2, metric="pass@8") | dict.fromkeys(("low", "high", "error", "p")),
            "undecided; no interval: all questions agree",
        ),
    ],
)
def test_a_verdict_says_what_limits_it(row, words):
    (_, _, (first,)) = claims_table(table(row))["tables"][0]
    assert first["decided"] == words


def test_no_more_seeds_are_asked_for_where_a_difference_is_just_too_near_the_margin():
    equal = {"method": "dph_f", "against": "grpo", "relation": "equal", "metric": "pass@16", "dataset": "d"}
    (_, _, (first,)) = claims_table(table(comparison(0.043), primary=[equal]))["tables"][0]
    assert first["decided"] == (
        "undecided; this run finds 2.9 in 80 % of cases; the interval reaches beyond the margin of 5.0"
    )
    (_, _, (first,)) = claims_table(table(comparison(0.0, metric="pass@8")))["tables"][0]
    assert first["decided"] == (
        "undecided; this run finds 2.9 in 80 % of cases; equivalence takes 5 trainings of each method"
    )


def test_the_page_has_a_row_for_each_claim():
    text = claims_html(TABLE)
    assert text.count('<th scope="row">') == TABLE.height
    assert "<td>+10.0 [+8.0, +12.0]</td><td>&lt; 0.001</td><td>3</td>" in text
    assert text.index("Primary endpoints") < text.index("Other claims")


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
