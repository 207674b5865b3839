"""Paired comparisons: differences, intervals, p values, families."""

import made_evaluations
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.interval import holm
from dphrl.evaluation.names import AGAINST_ITSELF
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import headline
from dphrl.store.catalogue import SCHEMAS

CONFIG = EvaluateConfig(k=(1, 8, 16))


def study(evaluations):
    return Study.from_evaluations(evaluations, CONFIG, 1)


def evaluation(method, seed, chances, dataset="d", step=40):
    """Evaluation of a made-up policy: 16 samples of each prompt, right with its chance."""
    drawn = np.random.default_rng([seed, *method.encode(), *dataset.encode()])
    correct = drawn.random((len(chances), 16)) < np.asarray(chances)[:, None]
    return made_evaluations.evaluation(correct, method, dataset, seed, step, style=())


CHANCES = np.random.default_rng(1).beta(0.7, 0.9, size=120)
METHODS = {"grpo": CHANCES + 0.1, "exp_only": CHANCES + 0.15, "dph_f": CHANCES + 0.2}


def runs(dataset="d", seeds=(1, 2, 3)):
    base = evaluation("base", 0, CHANCES, dataset, step=0)
    return pl.concat([base, *(evaluation(m, s, METHODS[m], dataset) for m in METHODS for s in seeds)])


@pytest.fixture(scope="module")
def evaluations():
    return runs()


@pytest.fixture(scope="module")
def table(evaluations):
    return comparisons(study(evaluations))


def test_each_method_meets_those_before_it(table):
    pairs = table.filter(metric="pass@8").select("method", "against").unique().sort("method", "against").rows()
    assert pairs == [
        ("dph_f", "base"),
        ("dph_f", "exp_only"),
        ("dph_f", "grpo"),
        ("exp_only", "base"),
        ("exp_only", "grpo"),
        ("grpo", "base"),
    ]
    metrics = ["greedy", "mean@16", "pass@16", "pass@8", *(f"{name}8" for name in AGAINST_ITSELF)]
    assert table["metric"].unique().sort().to_list() == sorted(metrics)
    assert table.filter(metric="keep@8", method="grpo")["against"].unique().to_list() == ["base_itself"]


def test_differences_are_those_of_the_headline(evaluations, table):
    values = headline(study(evaluations)).group_by("method", "metric").agg(pl.col("value").mean())
    known = {(method, metric): value for method, metric, value in values.iter_rows()}
    rows = table.filter(~pl.col("metric").is_in([f"{name}8" for name in AGAINST_ITSELF]))
    for metric, method, against, difference in rows.select("metric", "method", "against", "difference").iter_rows():
        assert difference == pytest.approx(known[method, metric] - known[against, metric])


def test_keep_and_explore_are_compared_over_the_same_prompts(evaluations, table):
    found = keep_explore(study(evaluations)).filter(k=8).group_by("method").agg(pl.col("keep", "explore").mean())
    rates = {row["method"]: row for row in found.to_dicts()}
    for rate in ("keep", "explore"):
        for against in ("base_itself", "grpo"):
            row = table.filter(metric=f"{rate}@8", method="dph_f", against=against).row(0, named=True)
            assert row["difference"] == pytest.approx(rates["dph_f"][rate] - rates[against][rate])
            assert row["low"] < row["difference"] < row["high"]


def test_a_planted_difference_is_found_and_none_is_not(table):
    row = table.filter(metric="mean@16", method="dph_f", against="base").row(0, named=True)
    assert 0 < row["low"] < row["difference"] < row["high"]
    assert row["p"] < 0.05
    assert (row["seeds"], row["seeds_against"], row["questions"], row["clusters"]) == (3, 0, 120, None)
    twins = pl.concat([evaluation("base", 0, CHANCES, step=0), evaluation("grpo", 1, CHANCES)])
    null = comparisons(study(twins)).filter(metric="mean@16")
    assert null["low"].item() < 0 < null["high"].item()
    assert null["p"].item() > 0.05


def test_the_numbers_of_seeds_pair_nothing(evaluations):
    """After the first step two trainings of one number have nothing in common."""
    renamed = evaluations.with_columns(
        seed=pl.when(pl.col("method") == "dph_f").then(pl.lit(3, pl.Int32) - pl.col("seed") % 3).otherwise("seed")
    )
    first, second = (comparisons(study(frame)).filter(method="dph_f") for frame in (evaluations, renamed))
    for name in ("difference", "error_trainings", "error_questions", "p"):
        np.testing.assert_allclose(first[name].to_numpy(), second[name].to_numpy())


def test_methods_may_have_different_numbers_of_seeds(evaluations):
    less = evaluations.filter(~((pl.col("method") == "dph_f") & (pl.col("seed") == 3)))
    row = comparisons(study(less)).filter(metric="pass@8", method="dph_f", against="grpo").row(0, named=True)
    assert (row["seeds"], row["seeds_against"]) == (2, 3)


def test_questions_on_few_databases_are_no_independent_questions(evaluations):
    by_cluster = {"d": 11, "few": 4}
    frames = [evaluations.with_columns(dataset=pl.lit(name)) for name in by_cluster]
    clusters = [
        pl.int_range(pl.len()).mod(number).cast(pl.String).over("method", "seed") for number in by_cluster.values()
    ]
    marked = [frame.with_columns(cluster=one) for frame, one in zip(frames, clusters, strict=True)]
    found = comparisons(study(pl.concat(marked))).filter(metric="mean@16", method="grpo", against="base")
    plain = comparisons(study(evaluations)).filter(metric="mean@16", method="grpo", against="base")
    assert dict(found.select("dataset", "clusters").iter_rows()) == by_cluster
    errors = dict(found.select("dataset", "error_questions").iter_rows())
    assert errors["few"] == pytest.approx(plain["error_questions"].item())
    assert errors["d"] != pytest.approx(plain["error_questions"].item())


def test_datasets_of_one_role_have_an_average_with_the_k_of_the_paper(evaluations):
    config = CONFIG.model_copy(update={"roles": {"d": "in_domain", "amc23": "in_domain", "f": "cross_domain"}})
    everything = pl.concat([evaluations, runs("amc23"), runs("f")])
    found = comparisons(Study.from_evaluations(everything, config, 1)).filter(method="grpo", against="base")
    average = {row["metric"]: row for row in found.filter(dataset="average (in domain)").to_dicts()}
    assert set(average) == {"mean", "pass@k"}
    known = {(row["dataset"], row["metric"]): row["difference"] for row in found.to_dicts()}
    for metric, members in {"mean": ("mean@16", "mean@16"), "pass@k": ("pass@8", "pass@16")}.items():
        expected = (known["d", members[0]] + known["amc23", members[1]]) / 2
        assert average[metric]["difference"] == pytest.approx(expected)
        assert average[metric]["questions"] == 240
    assert found.filter(dataset="average (cross domain)").is_empty()


def test_only_the_last_steps_are_compared(evaluations, table):
    early = evaluation("dph_f", 1, CHANCES, step=20)
    assert comparisons(study(pl.concat([evaluations, early]))).equals(table)


def test_another_dataset_changes_nothing(evaluations, table):
    both = pl.concat([runs("e", (1,)), evaluations])
    assert comparisons(study(both)).filter(dataset="d").equals(table)


def test_majorities_are_compared_where_answers_have_classes(evaluations):
    classed = evaluations.filter(pl.col("seed") < 2).with_columns(answers=pl.lit([0] * 16, pl.List(pl.Int32)))
    assert "maj@16" in comparisons(study(classed))["metric"]


def test_the_base_alone_has_nothing_to_compare(evaluations):
    found = comparisons(study(evaluations.filter(method="base")))
    assert found.is_empty()
    assert found.columns == list(SCHEMAS["comparisons"].columns)


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    np.testing.assert_array_equal(holm([np.nan, 0.02, 0.5]), [np.nan, 0.04, 0.5])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lowers_no_p_value_and_keeps_their_order(p):
    corrected = holm(p)
    assert (corrected >= np.array(p)).all()
    assert (corrected <= np.minimum(np.array(p) * len(p), 1.0)).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()
