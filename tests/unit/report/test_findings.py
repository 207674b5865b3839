"""What the page says first: a sentence for each question."""

from __future__ import annotations

from typing import Any

import polars as pl
from made_comparisons import compared, comparison

from dphrl.config.blocks.evaluation import ClaimsConfig, EndpointConfig
from dphrl.evaluation.claims import claims
from dphrl.report.findings import Answer, answers, title
from dphrl.store.catalogue import SCHEMAS

HERE = {"dataset": "in_domain", "against": "base", "seeds_against": 0}


def row(method: str, metric: str, difference: float, error: float, **other: Any) -> dict[str, Any]:
    """Against the base; the interval is two errors to each side."""
    return comparison(difference, error, method=method, metric=metric, **{**HERE, **other})


ROWS = [
    row("dph_f", "distinct_styles", -0.2, 0.3),
    row("grpo", "distinct_styles", -3.5, 0.25),
    row("grpo", "pass@8", -0.01, 0.1),
    row("grpo", "pass@16", -0.06, 0.01),
    row("dph_f", "pass@16", 0.05, 0.01),
    row("exp_only", "pass@16", 0.0, 0.01),
    row("dph_f", "pass@16", 0.11, 0.02, against="grpo", seeds_against=3),
    row("exp_only", "pass@16", 0.01, 0.03, against="grpo", seeds_against=3),
    row("base_itself", "keep@8", 0.5, 0.1),
    row("grpo", "pass@16", 0.5, 0.01, dataset="maths"),
]
HEADLINE = SCHEMAS["headline"].frame(
    [
        ("base", 0, 0, "in_domain", "pass@16", 0.931, 0.9, 0.95),
        ("base", 0, 0, "in_domain", "distinct_styles", 4.5, 4, 5),
    ]
)
COLLAPSE = SCHEMAS["collapse"].frame(
    [
        ("in_domain", "grpo", "COLLAPSED", 8, -0.06, -0.08, -0.04, "COLLAPSED: coverage fell."),
        ("in_domain", "exp_only", "CANNOT TELL", 8, -0.01, -0.03, 0.01, "CANNOT TELL: it may have fallen."),
        ("in_domain", "dph_f", "COLLAPSED", 8, -0.05, -0.07, -0.03, "COLLAPSED: coverage fell."),
        ("maths", "dph_f", "NOT COLLAPSED", 8, 0.0, -0.01, 0.01, "NOT COLLAPSED: no loss."),
    ]
)
HOTTER = SCHEMAS["hotter"].frame(
    [
        ("in_domain", "grpo", 1.6, 8, 0.9, 0.01, -0.01, 0.03, True, True, 0.0, -0.02, 0.02),
        ("in_domain", "dph_f", 1.6, 8, 0.8, -0.1, -0.2, 0.0, True, False, -0.08, -0.1, -0.06),
    ]
)
NO_CLAIMS = SCHEMAS["claims"].frame()


def texts(rows: list[dict[str, Any]], **changed: pl.DataFrame) -> dict[str, str]:
    tables = {"collapse": COLLAPSE, "hotter": HOTTER.clear(), "headline": HEADLINE, "claims": NO_CLAIMS} | changed
    return dict(answers({**tables, "comparisons": compared(*rows)}, "in_domain"))


def test_each_question_is_answered_with_the_numbers_of_its_table() -> None:
    found = texts(ROWS, hotter=HOTTER)
    collapsed, undecided = found["Did coverage collapse?"].split("CANNOT TELL")
    assert "GRPO (-6.0 [-8.0, -4.0])" in collapsed
    assert "DPH-F (-5.0 [-7.0, -3.0])" in collapsed
    assert "D_exp only (-1.0 [-3.0, +1.0])" in undecided
    fell, not_shown = found["Did diversity fall?"].split("no difference is shown")
    assert "GRPO (-3.50 [-4.00, -3.00])" in fell
    assert "DPH-F (-0.20 [-0.80, +0.40])" in not_shown
    more, not_shown = found["Who kept more coverage than GRPO?"].split("no difference is shown")
    assert "DPH-F (+11.0 [+7.0, +15.0])" in more
    assert "D_exp only (+1.0 [-5.0, +7.0])" in not_shown
    recovered, not_recovered = found["Does drawing hotter recover it?"].split("a loss may be left")
    assert "GRPO (+0.0 [-2.0, +2.0])" in recovered
    assert "DPH-F (-8.0 [-10.0, -6.0])" in not_recovered
    assert "3 training seeds and 300 questions" in found["How sure is this?"]


def test_one_seed_and_few_databases_limit_what_is_known() -> None:
    found = texts([{**row, "seeds": 1, "clusters": 3} for row in ROWS])
    assert "they do not say how much another training would differ" in found["How sure is this?"]
    assert "the questions are on 3" in found["What is open?"]
    found = texts([{**row, "seeds": 1} if row["method"] == "exp_only" else row for row in ROWS])
    assert "over 1 to 3 training seeds and" in found["How sure is this?"]


def test_primary_claims_are_counted_with_the_smallest_size_that_the_run_finds() -> None:
    endpoints = [
        EndpointConfig(method=method, against=against, relation="higher", metric="pass@16", dataset="in_domain")
        for method, against in (("dph_f", "grpo"), ("exp_only", "grpo"))
    ]
    config = ClaimsConfig(primary=tuple(endpoints))
    made = claims(compared(*ROWS), SCHEMAS["comparisons_levels"].frame(), {"in_domain": "in_domain"}, config)
    found = texts(ROWS, claims=made)
    assert "1 supported, 0 contradicted, 0 equivalent, 1 undecided" in found["How sure is this?"]
    assert found["What is open?"].startswith("Primary differences below ")


def test_a_run_without_styles_or_baselines_answers_what_it_can() -> None:
    found = texts([row("dph_f", "pass@4", 0.01, 0.02)])
    assert list(found) == ["Did coverage collapse?", "Did diversity fall?", "How sure is this?", "What is open?"]
    assert found["Did diversity fall?"].startswith("Not measured: no kinds of right answers are known")


def test_classes_of_right_answers_show_the_diversity_of_a_custom_task() -> None:
    found = texts([row("grpo", "distinct_right_answers", -1.5, 0.1), row("grpo", "pass@4", 0.01, 0.02)])
    assert "fell under GRPO (-1.50 [-1.70, -1.30])" in found["Did diversity fall?"]


def test_no_diversity_without_a_right_sample_is_not_for_want_of_kinds() -> None:
    found = texts([row("dph_f", "pass@16", 0.0, 0.1)], headline=HEADLINE.with_columns(value=pl.lit(0.0)))
    assert found["Did diversity fall?"].startswith("Not measured: no policy has a right sample")


def test_a_value_that_does_not_vary_shows_nothing() -> None:
    unknown = dict.fromkeys(("low", "high", "p"))
    rows = [row("grpo", "pass@16", 0.0, 1.0), {**row("grpo", "distinct_styles", 0.0, 1.0), **unknown}]
    assert "no difference is shown under GRPO (+0.00, no interval" in texts(rows)["Did diversity fall?"]


def test_a_run_that_compares_nothing_has_no_answers_and_a_title_without_the_question() -> None:
    assert texts([]) == {}
    assert title("demo", []) != title("demo", [Answer("Did diversity fall?", "It did.")])
    assert texts([row("grpo", "pass@16", 0.5, 0.01, dataset="maths")]) == {}
