"""Prompts with different numbers of samples, as in files of samples of other tools."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.per_prompt import evaluate
from dphrl.evaluation.study import Study

RIGHT = {"base": [[1, 0, 1], [1, 0, 0, 0, 1], [0, 0]], "tuned": [[1, 1], [0, 1, 0, 1], [0, 0, 1, 0]]}


def evaluated(method: str) -> pl.DataFrame:
    rows = [(f"q{q}", i, bool(r), f"{i % 2}") for q, one in enumerate(RIGHT[method]) for i, r in enumerate(one)]
    samples = pl.DataFrame(rows, ["prompt_id", "sample_index", "correct", "answer_class"], orient="row")
    samples = samples.with_columns(pl.col("sample_index").cast(pl.Int32), text=pl.lit("3 + 4 = 7"))
    verdicts = samples.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in ("program_class", "extracted")),
        verdict=pl.lit("wrong"),
        reads_table=pl.lit(None, pl.Boolean),
    )
    frame = evaluate(samples, verdicts, (), frozenset({"answer_class"}))
    zero = pl.lit(0, pl.Int32)
    return frame.with_columns(method=pl.lit(method), seed=zero, step=zero, dataset=pl.lit("d"))


@pytest.fixture(scope="module")
def made() -> Study:
    return Study.from_evaluations(pl.concat(map(evaluated, RIGHT)), EvaluateConfig(k=(1, 2)), 0)


def solved(samples: list[int], k: int) -> float:
    """The share of the draws of k that hold a right sample."""
    return float(np.mean([any(draw) for draw in combinations(samples, k)]))


def test_pass_at_k_has_the_samples_of_each_prompt(made):
    base, tuned = made.policies
    for policy, rows in ((base, RIGHT["base"]), (tuned, RIGHT["tuned"])):
        assert policy.n == 2
        expected = [[solved(row, k) for k in (1, 2)] for row in rows]
        assert policy.pass_at([1, 2]) == pytest.approx(np.array(expected))
        assert policy.proportions([1])["mean@2"][:, 0] == pytest.approx([np.mean(row) for row in rows])


def test_places_beyond_the_samples_of_a_prompt_are_wrong_and_have_no_class(made):
    base = made.policies[0]
    assert base.samples.astype(int).tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert base.codes("answers").tolist() == [[0, 1, 0, -1, -1], [0, 1, 0, 1, 0], [0, 1, -1, -1, -1]]


def test_keep_and_explore_have_the_samples_of_each_prompt(made):
    row = keep_explore(made).filter(method="tuned", k=2).row(0, named=True)
    pairs = [(solved(b, 2), solved(t, 2)) for b, t in zip(*RIGHT.values(), strict=True)]
    assert row["kept"] == pytest.approx(sum(b * t for b, t in pairs))
    assert row["gained"] == pytest.approx(sum((1 - b) * t for b, t in pairs))
