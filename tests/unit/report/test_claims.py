"""The claims as a reader sees them."""

import polars as pl

from dphrl.config.blocks.evaluate import ClaimsConfig
from dphrl.evaluation.claims import CLAIMS, Claim, claims
from dphrl.pages.render import environment
from dphrl.report.claims import claims_markdown, difference, measured
from dphrl.report.views import claims_table

CLAIM = Claim("passk", "dph_f", "higher", "pass@", "grpo", "abstract", "DPH-F has a higher pass@k than GRPO.")
STYLES = Claim("s", "dph_f", "higher", "distinct_styles", "grpo", "appendix B", "More styles.")


def claims_html(found):
    return environment().get_template("macros.html.j2").module.claims(claims_table(found))


def comparison(low, high, seeds=3, kind="seeds", metric="pass@16", dataset="d"):
    return {
        **{"dataset": dataset, "metric": metric, "method": "dph_f", "against": "grpo", "kind": kind},
        **{"difference": (low + high) / 2, "low": low, "high": high, "p": None, "p_holm": None, "seeds": seeds},
    }


TABLE = claims(
    pl.DataFrame(
        [
            comparison(0.01, 0.05),
            comparison(0.1, 0.2, 1, "prompts", dataset="out_of"),
            comparison(-0.5, 0.25, metric="distinct_styles"),
        ],
        schema_overrides={"p": pl.Float64, "p_holm": pl.Float64},
    ),
    ClaimsConfig(),
    [CLAIM, STYLES],
)


def test_the_markdown_says_what_was_measured():
    assert (
        claims_markdown(TABLE)
        == """# Claims

Claims by dataset: 1 supported, 1 not supported, 2 not enough data.

## DPH-F has a higher pass@k than GRPO.

From: abstract.

| Dataset   | Metric   |             Difference [interval] |   Seeds | Verdict         |
|:----------|:---------|----------------------------------:|--------:|:----------------|
| d         | pass@16  |      +3.0 [+1.0, +5.0] over seeds |       3 | supported       |
| out\\_of   | pass@16  | +15.0 [+10.0, +20.0] over prompts |       1 | not enough data |

## More styles.

From: appendix B.

| Dataset   | Metric           |           Difference [interval] |   Seeds | Verdict         |
|:----------|:-----------------|--------------------------------:|--------:|:----------------|
| d         | distinct\\_styles | -0.12 [-0.50, +0.25] over seeds |       3 | not supported   |
| out\\_of   | distinct\\_styles |                               - |       0 | not enough data |
"""
    )


def test_the_page_has_a_row_for_each_dataset_of_each_claim():
    text = claims_html(TABLE)
    assert text.count("<tr>") == 1 + TABLE.height
    assert text.count('rowspan="2"') == 2
    assert '<td>+3.0 [+1.0, +5.0] over seeds</td><td>3</td><td class="text">supported</td>' in text
    assert "1 supported, 1 not supported, 2 not enough data" in text


def test_a_dataset_cannot_become_markup():
    evil = "<img src=x onerror=alert(1)>"
    spoilt = TABLE.with_columns(dataset=pl.lit(evil), sentence=pl.lit(evil))
    assert "<img" not in claims_html(spoilt)
    assert "<img" not in claims_markdown(spoilt.with_columns(sentence=pl.lit("x"))).replace("\\<", "")


def test_differences_have_a_sign_and_a_unit():
    assert difference("pass@8", 0.125) == "+12.5"
    assert difference("distinct_styles", -0.125) == "-0.12"
    assert difference("pass@8", None) == "-"


def test_equal_differences_have_no_interval():
    equal = {**comparison(0.01, 0.01), "low": None, "high": None}
    assert measured(equal) == "+1.0 [no interval] over seeds"


def test_every_claim_of_the_paper_is_on_the_page():
    table = claims(
        pl.DataFrame([comparison(0.1, 0.2)], schema_overrides={"p": pl.Float64, "p_holm": pl.Float64}), ClaimsConfig()
    )
    assert claims_html(table).count('scope="rowgroup"') == len(CLAIMS)
