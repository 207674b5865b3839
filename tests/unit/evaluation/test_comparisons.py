"""Paired comparisons: differences, intervals, p values, families."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from dphrl.config.blocks.evaluate import BootstrapConfig, EvaluateConfig
from dphrl.evaluation.comparisons import comparisons, holm, t_interval
from dphrl.evaluation.keep_explore import forgetting
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import headline

CONFIG = EvaluateConfig(k=(1, 8, 16), bootstrap=BootstrapConfig(replicates=500))


def study(evaluations):
    return Study.from_evaluations(evaluations, CONFIG, 1)


def evaluation(method, seed, chances, dataset="d", step=40, marks=()):
    """Evaluation of a made-up policy: 16 samples of each prompt, right with its chance; `marks` are further columns."""
    drawn = np.random.default_rng([seed, *method.encode(), *dataset.encode()])
    correct = drawn.random((len(chances), 16)) < np.asarray(chances)[:, None]
    c = correct.sum(axis=1)
    frame = pl.DataFrame(
        {
            "method": method,
            "seed": seed,
            "step": step,
            "dataset": dataset,
            "prompt_id": [f"p{row:03}" for row in range(len(c))],
            "n": 16,
            "c": c,
            "correct": correct.tolist(),
            "greedy_correct": np.asarray(chances) > 0.5,
            "styles": pl.Series([[]] * len(c), dtype=pl.List(pl.String)),
            **dict.fromkeys(("distinct_styles", "distinct_programs"), 0),
        }
    )
    return frame.with_columns(pl.col("seed", "step", "n", "c", "^distinct_.*$").cast(pl.Int32), *marks)


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
    assert table["metric"].unique().sort().to_list() == ["explore", "greedy", "keep", "mean@16", "pass@16", "pass@8"]
    assert table.filter(metric="keep", method="grpo")["against"].unique().to_list() == ["base_second_draw"]


def test_differences_are_those_of_the_headline(evaluations, table):
    values = headline(study(evaluations)).group_by("method", "metric").agg(pl.col("value").mean())
    known = {(method, metric): value for method, metric, value in values.iter_rows()}
    rows = table.filter(~pl.col("metric").is_in(["keep", "explore"]))
    for metric, method, against, difference in rows.select("metric", "method", "against", "difference").iter_rows():
        assert difference == pytest.approx(known[method, metric] - known[against, metric])


def test_keep_and_explore_are_compared_over_the_same_prompts(evaluations, table):
    counts = forgetting(study(evaluations)).with_columns(
        keep=pl.col("kept") / (pl.col("kept") + pl.col("forgotten")),
        explore=pl.col("gained") / (pl.col("gained") + pl.col("unsolved")),
    )
    rates = {row["method"]: row for row in counts.group_by("method").agg(pl.col("keep", "explore").mean()).to_dicts()}
    for metric in ("keep", "explore"):
        for against in ("base_second_draw", "grpo"):
            found = table.filter(metric=metric, method="dph_f", against=against)["difference"]
            assert found.to_list() == pytest.approx([rates["dph_f"][metric] - rates[against][metric]] * 2)


def test_a_planted_difference_is_found_and_none_is_not(table):
    found = table.filter(metric="mean@16", method="dph_f", against="base").to_dicts()
    for row in found:
        assert 0 < row["low"] < row["difference"] < row["high"]
        assert row["p"] <= row["p_holm"] < 0.05
        assert row["seeds"] == 3
    twins = pl.concat([evaluation("base", 0, CHANCES, step=0), evaluation("grpo", 1, CHANCES)])
    null = comparisons(study(twins)).filter(metric="mean@16")
    assert null["low"].item() < 0 < null["high"].item()
    assert null["p"].item() > 0.05


def test_intervals_over_seeds_are_those_of_the_differences_of_each_seed(evaluations, table):
    values = headline(study(evaluations)).filter(metric="pass@8")
    by_seed = {method: group["value"].to_numpy() for (method,), group in values.sort("seed").group_by("method")}
    for method, against in (("dph_f", "grpo"), ("grpo", "base")):
        row = table.filter(metric="pass@8", method=method, against=against, kind="seeds")
        expected = t_interval(by_seed[method] - by_seed[against], 0.95)
        assert row.select("difference", "low", "high", "p").row(0) == pytest.approx(expected)


def test_one_seed_has_no_comparison_over_seeds(evaluations):
    found = comparisons(study(evaluations.filter(pl.col("seed") < 2)))
    assert found["kind"].unique().to_list() == ["prompts"]
    assert found["seeds"].unique().to_list() == [1]


def test_only_common_seeds_are_paired(evaluations):
    less = evaluations.filter(~((pl.col("method") == "dph_f") & (pl.col("seed") == 3)))
    found = comparisons(study(less)).filter(metric="pass@8", method="dph_f")
    assert found["seeds"].unique().to_list() == [2]
    other = evaluations.filter(((pl.col("method") == "dph_f") & (pl.col("seed") == 3)) | (pl.col("method") != "dph_f"))
    apart = other.filter((pl.col("method") == "dph_f") | (pl.col("seed") != 3))
    assert comparisons(study(apart)).filter(method="dph_f", against="grpo").is_empty()


def test_seeds_that_agree_exactly_have_no_interval():
    base = evaluation("base", 0, CHANCES, step=0)
    twice = [evaluation("grpo", 1, METHODS["grpo"]).with_columns(seed=pl.lit(seed, pl.Int32)) for seed in (1, 2)]
    found = comparisons(study(pl.concat([base, *twice]))).filter(kind="seeds", metric="pass@8")
    assert found.select("low", "high", "p", "p_holm").row(0) == (None,) * 4
    assert found["difference"].item() is not None


def test_only_the_last_steps_are_compared(evaluations, table):
    early = evaluation("dph_f", 1, CHANCES, step=20)
    assert comparisons(study(pl.concat([evaluations, early]))).equals(table)


def test_methods_may_end_at_different_steps(evaluations, table):
    longer = evaluations.with_columns(
        step=pl.when(pl.col("method") == "dph_f").then(60).otherwise(pl.col("step")).cast(pl.Int32)
    )
    assert comparisons(study(longer)).equals(table)


def test_unequal_steps_of_the_seeds_of_a_method_are_refused(evaluations):
    further = evaluation("dph_f", 1, CHANCES, step=60)
    with pytest.raises(ValueError, match="dph_f ends at step 60 with seed 1, at step 40 with seed 2"):
        comparisons(study(pl.concat([evaluations, further])))


def test_another_dataset_or_row_order_changes_nothing(evaluations, table):
    both = pl.concat([runs("e", (1,)), evaluations]).sample(fraction=1.0, shuffle=True, seed=3)
    assert comparisons(study(both)).filter(dataset="d").equals(table)


def test_a_family_is_a_dataset_metric_and_kind(table):
    for _, family in table.group_by("dataset", "metric", "kind"):
        assert family.height == 6
        np.testing.assert_allclose(family["p_holm"].to_numpy(), holm(family["p"].to_numpy()))


def test_answers_and_skeletons_are_compared_where_they_are_known(evaluations):
    frame = evaluations.filter(pl.col("seed") < 2).with_columns(
        answers=pl.lit([0] * 16, pl.List(pl.Int32)),
        programs=pl.lit([], pl.List(pl.Int32)),
        skeletons=pl.lit([0, 1] * 8, pl.List(pl.Int32)),
    )
    found = comparisons(study(frame))["metric"].unique().to_list()
    assert {"maj@16", "distinct_skeletons"} <= set(found)


def test_the_base_alone_has_nothing_to_compare(evaluations):
    found = comparisons(study(evaluations.filter(method="base")))
    assert found.is_empty()
    assert found.columns == [
        *("dataset", "metric", "method", "against", "kind"),
        *("difference", "low", "high", "p", "p_holm", "seeds"),
    ]


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


def test_the_t_interval_is_the_textbook_one():
    values = [0.5, 1.5, 0.7, -0.2]
    test = ttest_1samp(values, 0.0)
    mean, low, high, p = t_interval(values, 0.9)
    assert mean == pytest.approx(np.mean(values))
    assert (low, high) == pytest.approx(tuple(test.confidence_interval(0.9)))
    assert p == pytest.approx(test.pvalue)
