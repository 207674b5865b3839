"""The frontier of a training by hand-made paths, and split draws against all splits."""

from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_evaluations import evaluation, study

from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import (
    BOUGHT,
    BOUGHT_SPLIT,
    accuracy_bought,
    frontier,
    frontier_table,
    gain,
    paths,
    split_pass_at_k,
)
from dphrl.report.methods import label

BASE = (0.0, 1.0)
COUNTS = Path(__file__).resolve().parents[3] / "docs/worked-example/counts.parquet"


@pytest.mark.parametrize(
    ("path", "bought"),
    [
        ([BASE, (2.0, 0.9), (4.0, 0.6)], 19 / 9),
        # A policy below the hull, and steps in another order, change nothing.
        ([BASE, (4.0, 0.6), (1.0, 0.5), (2.0, 0.9)], 19 / 9),
        # Coverage above the base's: accuracy is bought at all of it.
        ([BASE, (1.0, 1.1), (3.0, 0.8)], 23 / 9),
        # No upper end: what keeps all counts in full.
        ([BASE, (2.0, 1.0)], 2.0),
        # A training that gains nothing, or loses accuracy with coverage.
        ([BASE, (0.0, 0.8), (-1.0, 0.9)], 0.0),
        ([BASE], 0.0),
        # Only what lies left of the least share counts: the line to (6, 0.4) reaches x = 3 at 0.7.
        ([BASE, (6.0, 0.4)], 1.5),
    ],
)
def test_accuracy_bought_by_hand(path: list[tuple[float, float]], bought: float) -> None:
    assert accuracy_bought(path, 0.7) == pytest.approx(bought, abs=1e-12)


def test_the_gain_at_a_kept_share_is_read_off_the_hull() -> None:
    path = [BASE, (2.0, 0.9), (1.0, 0.7), (4.0, 0.6)]
    assert frontier(path).tolist() == [[0.0, 1.0], [2.0, 0.9], [4.0, 0.6]]
    assert gain(path, [1.0, 0.95, 0.9, 0.75, 0.6, 0.5]) == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 4.0])


def test_split_draws_are_the_mean_over_all_splits() -> None:
    policy, base, k = np.array([[4, 4], [1, 0]]), np.array([[3, 3], [2, 0]]), 3
    ours, theirs = [True, False, False, False], [True, True, False]
    for of_base in range(k + 1):
        solved = split_pass_at_k(policy, base, k, of_base)
        sets = [(*one, *two) for one in combinations(ours, k - of_base) for two in combinations(theirs, of_base)]
        assert len(sets) == comb(4, k - of_base) * comb(3, of_base)
        assert solved[0] == pytest.approx(np.mean([any(drawn) for drawn in sets]), abs=1e-12)
        assert solved[1] == 0.0


def _right(counts: list[int]) -> list[list[bool]]:
    return [[place < right for place in range(4)] for right in counts]


def test_a_run_has_the_frontier_of_each_training_over_all_questions_and_by_level() -> None:
    # Accuracy 2/4, 10/16, 12/16; questions solved in 4 draws 4, 3 and 2 of 4.
    rows = [
        evaluation(_right([2, 2, 2, 2]), "base"),
        evaluation(_right([4, 4, 2, 0]), "m", seed=1, step=8),
        evaluation(_right([4, 4, 4, 0]), "m", seed=2, step=8),
        evaluation(_right([4, 2, 4, 0]), "m", seed=1, step=16),
    ]
    level = pl.Series("level", ["a", "a", "b", "b"])
    whole, easy, hard = paths(study(pl.concat(rows).with_columns(pl.concat([level] * 4)), k=(1, 4)))
    assert [found.level for found in (whole, easy, hard)] == ["", "a", "b"]
    # Both steps of the first training are (1/8, 3/4), the second training is (1/4, 3/4). G is x up to the kept share
    # 3/4, and falls to 0 at 1.
    to_corner = (0.05 + 0.25 / 2) / 0.3
    measured = whole.bought(BOUGHT)["m"][:, 0]
    assert measured == pytest.approx([to_corner / 8, to_corner / 4])
    # Accuracy is over all questions, coverage over those of the level: all of "a" is solved, half of "b".
    assert easy.bought(BOUGHT)["m"][:, 0] == pytest.approx([1 / 8, 1 / 4])
    assert hard.bought(BOUGHT)["m"][:, 0] == pytest.approx([0.15 / 0.5 / 8, 0.15 / 0.5 / 4])
    # Split draws are points of their own, on or above the line.
    assert (whole.bought(BOUGHT_SPLIT)["m"][:, 0] > measured).all()
    table = frontier_table([whole, easy, hard]).filter(level="", seed=2)
    found = dict(table.select("metric", "value").iter_rows())
    assert found["gain@0.9"] == pytest.approx(0.1)
    assert found["gain@0.5"] == pytest.approx(0.25)
    assert found["best_mean"] == pytest.approx(0.75)


def test_mixtures_are_a_path_with_the_end_of_their_training_and_no_name_of_a_user_is_one() -> None:
    rows = [evaluation(_right([2, 2, 2, 2]), "base")]
    # The end of m is (1/8, 3/4), half of it (1/8, 1); x_m2 is a method by this name.
    for method, right in (("m", [4, 4, 2, 0]), ("m-m50", [3, 3, 3, 1]), ("x_m2", [4, 4, 2, 0])):
        rows.append(evaluation(_right(right), method, seed=1, step=8))
    (whole,) = paths(study(pl.concat(rows), k=(1, 4)))
    bought = {method: values[0, 0] for method, values in whole.bought(BOUGHT).items()}
    alone = (0.05 + 0.25 / 2) / 0.3 / 8
    assert bought == pytest.approx({"m": alone, "x_m2": alone, "m-mixed": 1 / 8})
    assert [label(method) for method in ("grpo-m50", "grpo-mixed", "x_m2")] == [
        "GRPO, weights mixed: 50 %", "GRPO, weights mixed", "x_m2"
    ]  # fmt: skip


def test_a_level_that_the_base_never_solves_has_no_frontier() -> None:
    rows = [evaluation(_right([2, 0]), "base"), evaluation(_right([4, 1]), "m", seed=1, step=8)]
    level = pl.Series("level", ["a", "b"])
    found = paths(study(pl.concat(rows).with_columns(pl.concat([level] * 2)), k=(1, 2)))
    assert [of_level.level for of_level in found] == ["", "a"]


def test_draws_without_a_question_that_the_base_solves_are_left_out() -> None:
    rows = [evaluation(_right([2, 0]), "base"), evaluation(_right([4, 1]), "m", seed=1, step=8)]
    (found,) = paths(study(pl.concat(rows), k=(1, 2)))
    bought = found.bought(BOUGHT)["m"]
    # A quarter of the 200 draws has the second question twice.
    assert 120 < bought.shape[1] - 1 < 180
    # With the first question alone the policy gains 1/2, with both (1/2 + 1/4) / 2.
    assert set(np.round(bought[0], 12)) == {0.5, 0.375}


def test_contrasts_have_both_parts_and_the_base_bought_nothing() -> None:
    generator = np.random.default_rng(3)
    rates = generator.beta(0.5, 0.5, 60)
    rows = [evaluation(generator.random((60, 8)) < rates[:, None], "base")]
    for method, gain_of in (("grpo", 0.05), ("dph_f", 0.15)):
        for seed in (1, 2, 3):
            better = np.clip(rates + gain_of, 0, 1)
            rows.append(evaluation(generator.random((60, 8)) < better[:, None], method, seed=seed, step=8))
    of_run = study(pl.concat(rows), k=(1, 8))
    table = comparisons(of_run, [*paths(of_run)]).filter(metric=BOUGHT)
    pairs = {(row["method"], row["against"]): row for row in table.iter_rows(named=True)}
    alone = pairs["dph_f", "base"]
    assert alone["seeds_against"] == 0
    assert alone["difference"] - pairs["grpo", "base"]["difference"] == pytest.approx(
        pairs["dph_f", "grpo"]["difference"]
    )
    assert pairs["dph_f", "grpo"]["low"] > 0
    # The part of the questions is near the standard error of a paired mean difference.
    assert 0.005 < pairs["dph_f", "grpo"]["error_questions"] < 0.03


def test_the_committed_paths_have_the_values_that_were_computed_with_other_code() -> None:
    counts = pl.read_parquet(COUNTS)
    base = counts.filter(run="demo-full", method="base")
    rows = pl.concat([base, counts.filter(pl.col("method").is_in(["grpo", "dph_f"]), run="demo-full-paths")])
    rows = rows.with_columns(
        prompt_id=pl.col("question").cast(pl.String).str.zfill(5),
        dataset=pl.lit("in_domain"),
        n=pl.lit(16, pl.Int32),
        c=pl.col("c").cast(pl.Int32),
    )
    ambiguous = next(found for found in paths(study(rows)) if found.level == "ambiguous")
    means = {method: 100 * values[:, 0].mean() for method, values in ambiguous.bought(BOUGHT).items()}
    assert means == {"grpo": pytest.approx(2.5, abs=0.05), "dph_f": pytest.approx(3.5, abs=0.05)}
