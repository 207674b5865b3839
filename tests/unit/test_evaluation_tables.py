"""Tables over policies: values, intervals, identities, determinism."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphrl.artifacts import SCHEMAS
from dphrl.config.evaluate import BootstrapConfig
from dphrl.evaluation import (
    SECOND_DRAW,
    PromptBootstrap,
    headline,
    keep_explore,
    pass_at_k,
    passk,
    styles,
    wilson,
)

CONFIG = BootstrapConfig(replicates=300)


def evaluation(correct, method="base", dataset="d", seed=0, step=0, style=("a",)):
    """Evaluation frame of one policy from its matrix (prompts, n) of right samples."""
    correct = np.asarray(correct, dtype=bool)
    n = correct.shape[1]
    given_styles = [
        [style[(row + sample) % len(style)] for sample in range(n)] if style else [] for row in range(len(correct))
    ]
    found = [len(set(one)) for one in given_styles]
    frame = pl.DataFrame(
        {
            "method": method,
            "seed": seed,
            "step": step,
            "dataset": dataset,
            "prompt_id": [f"p{row:03}" for row in range(len(correct))],
            "n": n,
            "c": correct.sum(axis=1),
            "correct": correct.tolist(),
            "greedy_correct": correct[:, 0],
            "styles": pl.Series(given_styles, dtype=pl.List(pl.String)),
            "distinct_styles": found,
            "distinct_styles_correct": found,
            "distinct_answers": correct.any(axis=1).astype(int),
            "distinct_programs": correct.sum(axis=1),
        }
    )
    return frame.with_columns(pl.col("seed", "step", "n", "c", "^distinct_.*$").cast(pl.Int32))


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


def all_tables(evaluations, seed=1):
    return {
        "passk": passk(evaluations, [1, 2, 8, 16], CONFIG, seed),
        "headline": headline(evaluations, [1, 2, 8, 16], CONFIG, seed),
        "styles": styles(evaluations, CONFIG, seed),
        "keep_explore": keep_explore(evaluations, CONFIG, seed),
    }


def test_tables_keep_their_contract(evaluations):
    for name, frame in all_tables(evaluations).items():
        assert dict(SCHEMAS[name].conform(frame, name).schema) == dict(frame.schema) == SCHEMAS[name].columns


def test_same_seed_same_table_in_any_row_order(evaluations):
    again = all_tables(evaluations.sample(fraction=1.0, shuffle=True, seed=3))
    for name, frame in all_tables(evaluations).items():
        assert frame.equals(again[name])
    other = all_tables(evaluations, seed=2)["passk"]
    assert not other.equals(all_tables(evaluations)["passk"])
    assert other["value"].equals(all_tables(evaluations)["passk"]["value"])


def test_another_dataset_or_method_changes_nothing(evaluations):
    few = evaluations.filter((pl.col("dataset") == "d") & (pl.col("step") != 20))
    for name, frame in all_tables(evaluations).items():
        kept = frame.filter((pl.col("dataset") == "d") & (pl.col("step") != 20))
        assert kept.equals(all_tables(few)[name])


def test_passk_is_the_mean_over_prompts(evaluations):
    table = passk(evaluations, [1, 8], CONFIG, 1).filter((pl.col("method") == "base") & (pl.col("dataset") == "d"))
    c = samples(1).sum(axis=1)
    assert table["value"].to_list() == pytest.approx([float(np.mean(c / 16)), float(np.mean(pass_at_k(16, c, 8)))])
    assert (table["low"] < table["value"]).all()
    assert (table["value"] < table["high"]).all()


def test_headline_metrics(evaluations):
    table = headline(evaluations, [1, 2, 8, 16], CONFIG, 1)
    found = table.filter((pl.col("method") == "base") & (pl.col("dataset") == "d"))
    right = samples(1)
    assert dict(found.select("metric", "value").iter_rows()) == pytest.approx(
        {
            "greedy": right[:, 0].mean(),
            "mean@16": right.mean(),
            "pass@8": pass_at_k(16, right.sum(axis=1), 8).mean(),
            "pass@16": right.any(axis=1).mean(),
            "distinct_styles": 3.0,
            "distinct_programs": right.sum(axis=1).mean(),
        }
    )
    unstyled = table.filter(pl.col("dataset") == "e")["metric"].unique()
    assert "distinct_styles" not in unstyled
    single = headline(evaluations, [4], CONFIG, 1)["metric"].unique().to_list()
    assert [name for name in single if name.startswith("pass@")] == ["pass@4"]


def test_shares_add_up_and_name_every_style(evaluations):
    table = styles(evaluations, CONFIG, 1)
    assert table["dataset"].unique().to_list() == ["d"]
    sums = table.group_by("method", "step").agg(pl.col("share").sum(), pl.col("style"))
    assert sums["share"].to_list() == pytest.approx([1.0] * 3)
    assert all(names == ["a", "b", "other"] for names in sums["style"].to_list())
    collapsed = table.filter(pl.col("step") == 20)
    assert collapsed["distinct_styles"].to_list() == [1.0] * 3
    # A style that was never seen is not known to be absent: the bound is Wilson's.
    assert collapsed.filter(pl.col("style") == "b").select("low", "high").row(0) == wilson(0.0, 30, 0.95)


MATRICES = st.integers(1, 12).flatmap(
    lambda prompts: st.tuples(
        *[st.lists(st.lists(st.booleans(), min_size=16, max_size=16), min_size=prompts, max_size=prompts)] * 2
    )
)


@settings(max_examples=40, deadline=None)
@given(MATRICES)
def test_keep_and_explore_add_up_to_pass_at_8(matrices):
    base, trained = (np.array(matrix) for matrix in matrices)
    frame = pl.concat([evaluation(base), evaluation(trained, "grpo", seed=1, step=40)])
    table = keep_explore(frame, CONFIG, 1)
    second, row = table.to_dicts()
    assert (second["method"], row["method"]) == (SECOND_DRAW, "grpo")
    for found, right in ((second, base[:, 8:]), (row, trained[:, :8])):
        solved, unsolved = found["n_solved"], found["n_unsolved"]
        assert solved == base[:, :8].any(axis=1).sum()
        assert solved + unsolved == len(base)
        assert (found["keep"] is None) == (solved == 0)
        assert (found["explore"] is None) == (unsolved == 0)
        total = (found["keep"] or 0.0) * solved + (found["explore"] or 0.0) * unsolved
        assert total / len(base) == pytest.approx(right.any(axis=1).mean())


def test_few_base_samples_give_no_second_draw():
    frame = pl.concat([evaluation(samples(1, n=4)), evaluation(samples(2, n=4), "grpo", seed=1, step=40)])
    assert keep_explore(frame, CONFIG, 1)["method"].to_list() == ["grpo"]


def test_errors_name_the_policy(evaluations):
    with pytest.raises(ValueError, match=r"base step 0 on 'd'.*k=17"):
        passk(evaluations, [17], CONFIG, 1)
    with pytest.raises(ValueError, match="'d' has no evaluation of the base"):
        keep_explore(evaluations.filter(pl.col("method") != "base"), CONFIG, 1)
    fewer = evaluations.filter(~((pl.col("method") == "grpo") & (pl.col("prompt_id") == "p007")))
    with pytest.raises(ValueError, match=r"grpo seed 1 step 20 on 'd' covers other prompts.*'p007'"):
        passk(fewer, [1], CONFIG, 1)


def test_intervals_cover_and_shrink():
    generator = np.random.default_rng(0)
    covered, widths = 0, []
    for prompts in (25, 100, 400):
        for trial in range(40):
            values = (generator.random((prompts, 1)) < 0.3).astype(float)
            _, low, high = PromptBootstrap(prompts, "d", CONFIG, trial).ratio(values)
            covered += bool(low[0] <= 0.3 <= high[0])
        widths.append(float(high[0] - low[0]))
    assert covered >= 0.88 * 120
    assert widths[0] > widths[1] > widths[2]


def test_wilson_known_values():
    assert wilson(0.5, 10, 0.95) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0.0, 30, 0.95) == pytest.approx((0.0, 0.1135), abs=1e-4)
    assert wilson(1.0, 30, 0.95) == pytest.approx((0.8865, 1.0), abs=1e-4)
