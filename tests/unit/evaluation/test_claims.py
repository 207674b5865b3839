"""Claims and measurements: nothing is supported but by its interval over seeds."""

import polars as pl
import pytest

from dphrl.config.blocks.evaluate import ClaimsConfig
from dphrl.evaluation.claims import CLAIMS, Claim, claims

CLAIM = Claim("passk", "dph_f", "higher", "pass@", "grpo", "abstract", "DPH-F has a higher pass@k than GRPO.")
RULES = ClaimsConfig()


def comparison(low, high, seeds=3, kind="seeds", metric="pass@16", method="dph_f", against="grpo", dataset="d"):
    difference = None if low is None else (low + high) / 2
    return {
        **{"dataset": dataset, "metric": metric, "method": method, "against": against, "kind": kind},
        **{"difference": difference, "low": low, "high": high, "p": None, "p_holm": None, "seeds": seeds},
    }


def frame(*rows):
    texts = dict.fromkeys(("dataset", "metric", "method", "against", "kind"), pl.String)
    numbers = dict.fromkeys(("difference", "low", "high", "p", "p_holm"), pl.Float64)
    return pl.DataFrame(list(rows), schema={**texts, **numbers, "seeds": pl.Int32})


@pytest.mark.parametrize(
    ("direction", "interval", "verdict"),
    [
        ("higher", (0.01, 0.05), "supported"),
        ("higher", (-0.01, 0.05), "not supported"),
        ("higher", (-0.05, -0.01), "not supported"),
        ("lower", (-0.05, -0.01), "supported"),
        ("lower", (0.01, 0.05), "not supported"),
        ("lower", (0.0, 0.0), "not supported"),
    ],
)
def test_the_interval_over_seeds_decides(direction, interval, verdict):
    stated = Claim("x", "dph_f", direction, "pass@", "grpo", "abstract", "x")
    found = claims(frame(comparison(*interval), comparison(0.2, 0.3, kind="prompts")), RULES, [stated])
    assert found["verdict"].to_list() == [verdict]
    assert found.select("kind", "low", "high", "seeds").row(0) == ("seeds", *interval, 3)


def test_fewer_seeds_are_not_enough_however_sure_the_prompts_are():
    table = frame(comparison(0.1, 0.2, 2), comparison(0.14, 0.16, 2, "prompts"))
    found = claims(table, RULES, [CLAIM])
    assert found.select("verdict", "kind", "low", "seeds").row(0) == ("not enough data", "prompts", 0.14, 2)
    assert claims(table, ClaimsConfig(min_seeds=2), [CLAIM])["verdict"].item() == "supported"


def test_without_an_interval_over_prompts_the_one_over_few_seeds_is_shown():
    found = claims(frame(comparison(0.1, 0.2, 2)), RULES, [CLAIM])
    assert found.select("verdict", "kind", "low", "seeds").row(0) == ("not enough data", "seeds", 0.1, 2)


def test_seeds_that_agree_exactly_are_not_enough():
    assert claims(frame(comparison(None, None)), RULES, [CLAIM])["verdict"].item() == "not enough data"


def test_what_was_not_compared_is_said_so():
    found = claims(frame(comparison(0.1, 0.2, method="dapo")), RULES, [CLAIM])
    assert found.select("verdict", "kind", "difference", "seeds").row(0) == ("not enough data", None, None, 0)


def test_the_largest_k_is_meant():
    rows = [comparison(0.1, 0.2, metric=f"pass@{k}") for k in (2, 16, 8)]
    assert claims(frame(*rows), RULES, [CLAIM])["metric"].item() == "pass@16"


def test_every_claim_can_fail_and_can_hold():
    for claim in CLAIMS:
        metric = "pass@16" if claim.metric == "pass@" else claim.metric
        verdicts = []
        for low, high in ((0.1, 0.2), (-0.2, -0.1)):
            row = comparison(low, high, metric=metric, method=claim.method, against=claim.against)
            verdicts.append(claims(frame(row), RULES, [claim])["verdict"].item())
        assert sorted(verdicts) == ["not supported", "supported"]


def test_each_claim_has_its_name_and_is_tried_on_each_dataset():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    found = claims(frame(comparison(0.1, 0.2), comparison(0.1, 0.2, dataset="e")), RULES)
    assert found["claim"].to_list() == [name for name in names for _ in "de"]
    assert found["dataset"].to_list() == ["d", "e"] * len(names)


def test_one_seed_is_no_rule():
    with pytest.raises(ValueError, match=r"min_seeds\n.*greater than or equal to 2"):
        ClaimsConfig(min_seeds=1)
