"""Verdicts: what decides a claim, and what a run could have found."""

import polars as pl
import pytest
from made_comparisons import comparison

from dphrl.config.blocks.evaluation import ClaimsConfig, EndpointConfig
from dphrl.evaluation.claims import judged as judged_claims
from dphrl.report.claims import claims_of_run
from dphrl.store.catalogue import SCHEMAS

ROLES = {"d": "in_domain", "e": "cross_domain"}
ONE = EndpointConfig(method="dph_f", against="grpo", relation="higher", metric="pass@16", dataset="d")


def judged(*rows, rules=None, roles=ROLES, elsewhere=()):
    rules = rules or ClaimsConfig(primary=(ONE,))
    claims = claims_of_run(rules.primary, elsewhere)
    return judged_claims(claims, SCHEMAS["comparisons"].frame(list(rows)), roles, rules)


@pytest.mark.parametrize(
    ("relation", "difference", "error", "verdict"),
    [
        ("higher", 0.10, 0.02, "supported"),
        ("higher", -0.10, 0.02, "contradicted"),
        ("lower", -0.10, 0.02, "supported"),
        ("lower", 0.10, 0.02, "contradicted"),
        # The 90 % interval is 2 +- 1.7 x 1 points, then 2 +- 1.7 x 2: within 5 points or not.
        ("higher", 0.015, 0.01, "equivalent"),
        ("higher", 0.02, 0.02, "undecided"),
        # A small difference that is found is a difference below the margin first.
        ("higher", 0.02, 0.005, "equivalent"),
        ("equal", 0.02, 0.005, "supported"),
        ("equal", 0.02, 0.02, "undecided"),
        # The 95 % interval begins above 5 points, then below.
        ("equal", 0.10, 0.02, "contradicted"),
        ("equal", 0.10, 0.03, "undecided"),
    ],
)
def test_the_four_verdicts(relation, difference, error, verdict):
    rules = ClaimsConfig(primary=(ONE.model_copy(update={"relation": relation}),))
    found = judged(comparison(difference, error, seeds=5, seeds_against=5), rules=rules)
    assert found.row(0, named=True)["verdict"] == verdict
    assert found.row(0, named=True)["primary"]


def test_fewer_seeds_decide_nothing():
    assert judged(comparison(0.2, seeds=2, seeds_against=2))["verdict"][0] == "undecided"
    assert judged(comparison(0.2, seeds_against=2))["verdict"][0] == "undecided"
    assert (
        judged(comparison(0.2, seeds=2), rules=ClaimsConfig(primary=(ONE,), min_seeds=2))["verdict"][0] == "supported"
    )


def test_equivalent_takes_five_trainings():
    rows = [comparison(0.015, 0.01, seeds=seeds, seeds_against=5) for seeds in (4, 5)]
    assert [judged(row)["verdict"][0] for row in rows] == ["undecided", "equivalent"]


def test_claims_of_equality_are_corrected_too():
    """Margin 5, difference 3, error 1: t(20) of 2 has a one-sided p of 0.0296. Of two such claims neither is found."""
    names = ("pass@8", "pass@16")
    endpoints = [ONE.model_copy(update={"metric": name, "relation": "equal"}) for name in names]
    rows = [comparison(0.03, 0.01, metric=name) for name in names]
    alone = judged(*rows, rules=ClaimsConfig(primary=endpoints[:1])).row(0, named=True)
    assert (alone["verdict"], alone["p_corrected"]) == ("supported", pytest.approx(0.02963, abs=1e-4))
    both = judged(*rows, rules=ClaimsConfig(primary=endpoints)).filter("primary")
    assert both["verdict"].to_list() == ["undecided"] * 2


def test_the_base_has_no_seeds():
    endpoint = ONE.model_copy(update={"against": "base"})
    row = comparison(0.2, against="base", seeds_against=0)
    assert judged(row, rules=ClaimsConfig(primary=(endpoint,)))["verdict"][0] == "supported"


def test_where_nothing_varies_nothing_is_decided():
    row = comparison(0.0) | dict.fromkeys(("low", "high", "p", "error_trainings", "error_questions"))
    found = judged(row).row(0, named=True)
    assert (found["verdict"], found["p_corrected"], found["detectable"]) == ("undecided", None, None)


def test_primary_endpoints_are_corrected_among_themselves():
    """Holm: 0.03 and 0.04 alone are findings, together neither is; other claims do not matter."""
    endpoints = [ONE, ONE.model_copy(update={"metric": "pass@8"})]
    rows = [comparison(0.1, p=0.03), comparison(0.1, metric="pass@8", p=0.04)]
    others = [comparison(0.1, metric="greedy", p=0.9)]
    alone = judged(*rows, *others, rules=ClaimsConfig(primary=endpoints[:1]))
    both = judged(*rows, *others, rules=ClaimsConfig(primary=endpoints))
    assert alone.filter("primary")["p_corrected"].to_list() == [0.03]
    assert both.filter("primary")["p_corrected"].to_list() == [0.06, 0.06]
    assert alone.filter("primary")["verdict"].to_list() == ["supported"]
    assert "supported" not in both.filter("primary")["verdict"].to_list()


def test_a_model_made_elsewhere_gets_the_claim_that_it_solves_fewer_questions_than_the_base():
    found = comparison(-0.1, metric="pass@8", method="trl", against="base")
    assert judged(found, rules=ClaimsConfig()).is_empty()
    row = judged(found, rules=ClaimsConfig(), elsewhere={"trl", "base", "grpo"}).row(0, named=True)
    assert (row["claim"], row["verdict"], row["primary"]) == ("trl_lower_pass@8_base_in_domain", "supported", True)
    assert row["source"] == "default"


def test_other_claims_are_exploratory_and_not_corrected():
    rows = [comparison(0.1, metric=name, p=p) for name, p in (("greedy", 0.04), ("pass@8", 0.02), ("explore@8", 0.3))]
    found = judged(comparison(0.1), *rows).filter(~pl.col("primary"))
    assert found["p_corrected"].null_count() == 3
    verdicts = dict(found.select("metric", "verdict").iter_rows())
    assert verdicts == {"greedy": "supported", "pass@8": "supported", "explore@8": "undecided"}


def test_an_undecided_claim_says_what_it_could_have_found():
    row = judged(comparison(0.02, 0.02)).row(0, named=True)
    # (t(0.975) + t(0.8)) x 2 points with 20 degrees of freedom.
    assert row["detectable"] == pytest.approx(0.02 * (2.086 + 0.860), abs=1e-4)
    assert row["seeds_needed"] > 3
    assert row["margin"] == 0.05
    twice = judged(
        comparison(0.02, 0.02),
        comparison(0.02, 0.02, metric="pass@8"),
        rules=ClaimsConfig(primary=(ONE, ONE.model_copy(update={"metric": "pass@8"}))),
    ).row(0, named=True)
    assert twice["detectable"] > row["detectable"]


def test_of_decided_claims_the_primary_ones_say_what_they_could_have_found():
    primary, other = judged(comparison(0.2), comparison(0.2, metric="greedy")).rows(named=True)
    assert primary["detectable"] == pytest.approx(0.01 * (2.086 + 0.860), abs=1e-4)
    assert (primary["seeds_needed"], primary["questions_needed"]) == (None, None)
    assert (other["detectable"], other["seeds_needed"], other["questions_needed"]) == (None,) * 3


def test_counts_have_a_margin_of_their_kind():
    endpoint = ONE.model_copy(update={"metric": "distinct_styles"})
    row = comparison(0.1, 0.05, metric="distinct_styles", seeds=5, seeds_against=5)
    found = judged(row, rules=ClaimsConfig(primary=(endpoint,), margin_counts=0.5)).row(0, named=True)
    assert (found["margin"], found["verdict"]) == (0.5, "equivalent")


def test_without_endpoints_those_of_passk_in_domain_are_primary():
    rows = [comparison(0.1, metric=name) for name in ("pass@8", "pass@16", "greedy")]
    found = judged(*rows, rules=ClaimsConfig())
    assert found.filter("primary").select("claim", "metric").rows() == [
        ("dph_f_higher_pass@8_grpo_in_domain", "pass@8")
    ]
    assert found["primary"][0]
    primary = [claim for claim in claims_of_run((), ()) if claim.primary]
    assert {(claim.metric, claim.role) for claim in primary} == {("pass@8", "in_domain")}


def test_pass_at_8_is_the_largest_k_up_to_8():
    rows = [comparison(0.1, metric=f"pass@{k}") for k in (2, 4, 16)]
    assert judged(*rows, rules=ClaimsConfig()).filter("primary")["metric"].to_list() == ["pass@4"]


def test_keep_means_its_only_k():
    rows = [comparison(0.1, metric="keep@8"), comparison(0.1, metric="explore@8")]
    assert judged(comparison(0.1), *rows)["metric"].to_list() == ["pass@16", "keep@8", "explore@8"]


def test_a_level_is_asked_alone():
    endpoint = ONE.model_copy(update={"level": "ambiguous"})
    rows = comparison(-0.2), comparison(0.1, level="ambiguous")
    found = judged(*rows, rules=ClaimsConfig(primary=(endpoint,))).row(0, named=True)
    assert (found["level"], found["difference"], found["verdict"]) == ("ambiguous", 0.1, "supported")
    assert found["sentence"] == "DPH-F has a higher pass@16 than GRPO, on d, ambiguous."


def test_an_average_stands_for_the_datasets_of_its_role():
    rows = [
        comparison(0.1, dataset="average (in domain)", metric="pass@k"),
        *(comparison(0.1, dataset=name, metric="pass@8") for name in ("x", "y")),
    ]
    found = judged(*rows, rules=ClaimsConfig(), roles={"x": "in_domain", "y": "in_domain"})
    assert found.filter("primary").select("dataset", "metric").rows() == [("average (in domain)", "pass@k")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "pass@32"}, "pass@32 of dph_f against grpo on d was not measured; measured are pass@16"),
        ({"level": "hard"}, "on d of level hard was not measured; measured are no metrics of this pair there"),
    ],
)
def test_an_endpoint_that_was_not_measured_is_not_left_out(changes, message):
    with pytest.raises(ValueError, match=message):
        judged(comparison(0.1), rules=ClaimsConfig(primary=(ONE.model_copy(update=changes),)))


def test_an_endpoint_on_keep_stands_against_the_base_by_chance():
    claim = ONE.model_copy(update={"against": "base", "metric": "keep@8", "relation": "lower"})
    row = comparison(-0.1, against="base_itself", metric="keep@8", seeds_against=0)
    table = judged(row, rules=ClaimsConfig(primary=(claim,)))
    assert table.select("claim", "verdict").rows() == [("dph_f_lower_keep@8_base_d", "supported")]


def test_methods_that_were_not_compared_have_no_claim():
    assert judged(comparison(0.1, method="other"), rules=ClaimsConfig()).is_empty()
    assert judged(rules=ClaimsConfig()).columns == list(SCHEMAS["claims"].columns)
