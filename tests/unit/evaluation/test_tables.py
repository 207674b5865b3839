"""Tables over policies: values, intervals, identities, determinism."""

import numpy as np
import polars as pl
import pytest
from made_evaluations import all_tables, evaluation, study

from dphrl.config.blocks.evaluation import ClaimsConfig, EndpointConfig, EvaluateConfig
from dphrl.evaluation import pass_at_k
from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.interval import wilson
from dphrl.evaluation.study import MOST_LEVELS, Study
from dphrl.evaluation.tables import headline, passk, styles
from dphrl.report.claims import claims_of_run
from dphrl.store.catalogue import SCHEMAS


def samples(seed, prompts=30, n=16):
    generator = np.random.default_rng(seed)
    return generator.random((prompts, n)) < generator.random((prompts, 1))


@pytest.fixture(scope="module")
def evaluations():
    return pl.concat(
        [
            evaluation(samples(1), dataset="d", style=("a", "b", "other")),
            evaluation(samples(2), "grpo", "d", 1, 20, style=("a",)),
            evaluation(samples(3), "grpo", "d", 1, 40, style=("a", "b")),
            evaluation(samples(4), dataset="e", style=()),
            evaluation(samples(5), "grpo", "e", 1, 40, style=()),
        ]
    )


def test_tables_are_the_same_in_any_row_order(evaluations):
    tables = all_tables(study(evaluations))
    again = all_tables(study(evaluations.sample(fraction=1.0, shuffle=True, seed=3)))
    for name, frame in tables.items():
        assert frame.equals(again[name])


def test_another_dataset_or_method_changes_nothing(evaluations):
    one_dataset_and_step = (pl.col("dataset") == "d") & (pl.col("step") != 20)
    few = all_tables(study(evaluations.filter(one_dataset_and_step)))
    for name, frame in all_tables(study(evaluations)).items():
        if "step" in frame.columns:
            assert frame.filter(one_dataset_and_step).equals(few[name]), name


def test_the_share_of_constants_is_one_of_all_right_samples():
    correct = np.zeros((4, 4), bool)
    correct[0], correct[1, 0] = True, True
    frame = evaluation(correct).with_columns(constants=pl.Series([1, 0, None, None], dtype=pl.Int32))
    silent = evaluation(correct, "grpo", seed=1, step=9).with_columns(constants=pl.lit(None, pl.Int32))
    rows = headline(study(pl.concat([frame, silent]), [1, 2])).filter(metric="constants")
    assert rows.select("method", "value").rows() == [("base", 1 / 5)]
    assert 0 <= rows["low"][0] < 1 / 5 < rows["high"][0] <= 1


def test_passk_is_the_mean_over_prompts(evaluations):
    table = passk(study(evaluations, [1, 8])).filter((pl.col("method") == "base") & (pl.col("dataset") == "d"))
    c = samples(1).sum(axis=1)
    assert table["value"].to_list() == pytest.approx([float(np.mean(c / 16)), float(np.mean(pass_at_k(16, c, 8)))])
    assert (table["low"] < table["value"]).all()
    assert (table["value"] < table["high"]).all()


def test_headline_metrics(evaluations):
    table = headline(study(evaluations))
    found = table.filter((pl.col("method") == "base") & (pl.col("dataset") == "d"))
    right = samples(1)
    assert dict(found.select("metric", "value").iter_rows()) == pytest.approx(
        {
            "greedy": right[:, 0].mean(),
            "mean@16": right.mean(),
            "pass@8": pass_at_k(16, right.sum(axis=1), 8).mean(),
            "pass@16": right.any(axis=1).mean(),
            "distinct_styles": 3.0,
        }
    )
    unstyled = table.filter(pl.col("dataset") == "e")["metric"].unique()
    assert "distinct_styles" not in unstyled
    single = headline(study(evaluations, [4]))["metric"].unique().to_list()
    assert [name for name in single if name.startswith("pass@")] == ["pass@4"]


def test_shares_add_up_and_name_every_style(evaluations):
    table = styles(study(evaluations))
    assert table["dataset"].unique().to_list() == ["d"]
    sums = table.group_by("method", "step").agg(pl.col("share").sum(), pl.col("style"))
    assert sums["share"].to_list() == pytest.approx([1.0] * 3)
    assert all(names == ["a", "b", "other"] for names in sums["style"].to_list())
    collapsed = table.filter(pl.col("step") == 20)
    assert collapsed["distinct_styles"].to_list() == [1.0] * 3
    # A style that was never seen is not known to be absent: the bound is Wilson's.
    assert collapsed.filter(pl.col("style") == "b").select("low", "high").row(0) == wilson(0.0, 30, 0.95)


def test_k_and_temperatures_are_ascending_however_they_are_written():
    config = EvaluateConfig(k=[8, 1, 8], hotter=[1.6, 1.3])
    assert (config.k, config.hotter) == ((1, 8), (1.3, 1.6))


def test_each_dataset_has_the_k_that_its_samples_allow():
    frame = pl.concat([evaluation(samples(1)), evaluation(samples(2, n=4), dataset="few")])
    found = passk(study(frame, [1, 4, 16]))
    assert found.select("dataset", "k").rows() == [("d", 1), ("d", 4), ("d", 16), ("few", 1), ("few", 4)]
    quoted = headline(study(frame, [1, 4, 16])).filter(dataset="few")["metric"].to_list()
    assert [name for name in quoted if "@" in name] == ["mean@4", "pass@1", "pass@4"]


def test_errors_name_the_policy(evaluations):
    with pytest.raises(ValueError, match=r"base step 0 on 'd': 16 samples.*k = \[17\]"):
        passk(study(evaluations, [17]))
    with pytest.raises(ValueError, match="'d' has 0 evaluations of the base"):
        keep_explore(study(evaluations.filter(pl.col("method") != "base")))
    two = pl.concat([evaluations, evaluation(samples(6), seed=1)])
    with pytest.raises(ValueError, match="'d' has 2 evaluations of the base"):
        keep_explore(study(two))
    fewer = evaluations.filter(~((pl.col("method") == "grpo") & (pl.col("prompt_id") == "p007")))
    with pytest.raises(ValueError, match="grpo seed 1 step 20 on 'd' covers other prompts"):
        passk(study(fewer, [1]))


def test_each_level_is_compared_as_its_questions_alone(evaluations):
    one = evaluations.filter(pl.col("dataset") == "d")
    levels = pl.col("prompt_id").replace_strict({"p029": None}, default="easy", return_dtype=pl.String)
    marked = one.with_columns(level=pl.when(pl.col("prompt_id") < "p010").then(pl.lit("hard")).otherwise(levels))
    table = comparisons(study(marked))
    questions = table.filter(metric="pass@16").select("level", "questions").rows()
    assert questions == [("", 30), ("easy", 19), ("hard", 10)]
    hard = comparisons(study(marked.filter(level="hard"))).filter(level="")
    assert table.filter(level="hard").drop("level").equals(hard.drop("level"))
    assert table.filter(level="").equals(comparisons(study(one)))


def test_with_one_question_in_a_level_the_interval_of_several_seeds_is_unknown(evaluations):
    first = evaluations.filter(pl.col("dataset") == "d", pl.col("step") != 20)
    seeds = [first, *(evaluation(samples(seed), "grpo", "d", seed, 40) for seed in (2, 3))]
    rare = pl.when(pl.col("prompt_id") == "p000").then(pl.lit("rare")).otherwise(pl.lit("common"))
    endpoint = EndpointConfig(
        method="grpo", against="base", relation="lower", metric="pass@16", dataset="d", level="rare"
    )
    config = EvaluateConfig(k=(1, 2, 8, 16), claims=ClaimsConfig(primary=(endpoint,)))
    claims = claims_of_run(config.claims.primary, ())
    studied = Study.from_evaluations(pl.concat(seeds).with_columns(level=rare), config, 1, claims)
    tables = all_tables(studied)
    for name, frame in tables.items():
        SCHEMAS[name].conform(frame, name)
    row = tables["comparisons"].filter(level="rare", metric="pass@16").row(0, named=True)
    assert (row["seeds"], row["questions"]) == (3, 1)
    unknown = ("low", "high", "p", "error_questions", "freedom_questions")
    assert {row[name] for name in unknown} == {None}
    claim = tables["claims"].filter("primary").row(0, named=True)
    assert (claim["level"], claim["verdict"], claim["low"], claim["detectable"]) == ("rare", "undecided", None, None)


def test_a_dataset_with_a_separate_score_for_every_prompt_has_no_levels(evaluations):
    scored = evaluations.with_columns(level=pl.col("prompt_id"))
    assert scored["level"].n_unique() > MOST_LEVELS
    assert study(scored).levels == []


def test_many_clusters_widen_the_interval():
    right = np.repeat(np.random.default_rng(0).random((25, 1)) < 0.5, 16, axis=1)
    frame = evaluation(np.repeat(right, 4, axis=0))
    clustered = frame.with_columns(cluster=pl.col("prompt_id").str.tail(3).cast(pl.Int32) // 4).cast(
        {"cluster": pl.String}
    )
    wide, narrow = (passk(study(one, [1])) for one in (clustered, frame))
    assert wide["value"].item() == narrow["value"].item()
    assert (wide["high"] - wide["low"]).item() > 1.5 * (narrow["high"] - narrow["low"]).item()
    unknown = clustered.with_columns(cluster=pl.lit(None, pl.String))
    assert passk(study(unknown, [1])).equals(narrow)
