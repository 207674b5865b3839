"""Identities between the tables over all policies: two tables compute the same number in two ways.

As in a run of the workflow, all prompts of a dataset have the same number of samples under all policies.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made_evaluations import evaluation, study, with_classes

from dphrl.evaluation.against_base import crossing
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.evaluation.rarefied import FEWEST_PROMPTS
from dphrl.evaluation.tables import tabulate
from dphrl.store.catalogue import SCHEMAS

# `crossing` compares all k up to 64. Above it leaves some out, so `passk` could have an earlier crossing.
K = (1, 2, 4, 8)
TOLERANCE = 1e-6
POLICY = ("method", "seed", "step", "dataset")
PROMPTS = pl.sum_horizontal("kept", "lost", "gained", "neither")
# Codes of answers below it are right.
WRONG = 3
Tables = dict[str, pl.DataFrame]


def unsolved_numbers(tables: Tables) -> pl.DataFrame:
    """Rows of "keep_explore" whose numbers of prompts are not pass@k of base and policy times all prompts."""
    passk = tables["passk"].select(*POLICY, "k", "value")
    base = passk.filter(method=BASE)
    passk = pl.concat([passk, base.with_columns(method=pl.lit(BASE_ITSELF))])
    rows = (
        tables["keep_explore"]
        .join(base.select("dataset", "k", base="value"), on=("dataset", "k"), how="left")
        .join(passk, on=(*POLICY, "k"), how="left")
        .join(_prompts(tables), on="dataset", how="left")
    )
    right = _same(pl.col("kept") + pl.col("lost"), pl.col("base") * pl.col("prompts"))
    right &= _same(pl.col("kept") + pl.col("gained"), pl.col("value") * pl.col("prompts"))
    right &= _same(PROMPTS, pl.col("prompts"))
    return rows.filter(~right.fill_null(False)).select(*POLICY, "k")


def wrong_crossings(tables: Tables) -> pl.DataFrame:
    """Policies of "crossing" that "passk" has below the base at an earlier k, or not below at that k."""
    passk = tables["passk"].select(*POLICY, "value", at="k")
    base = passk.filter(method=BASE).select("dataset", "at", base="value")
    rows = tables["crossing"].join(passk, on=POLICY).join(base, on=("dataset", "at"))
    difference = pl.col("value") - pl.col("base")
    early = (difference < -TOLERANCE) & (pl.col("at") < pl.col("k")).fill_null(True)
    late = (difference > TOLERANCE) & (pl.col("at") == pl.col("k")).fill_null(False)
    return rows.filter(early | late).select(*POLICY, "k", "at")


def uncommon_prompts(tables: Tables) -> pl.DataFrame:
    """Rows of "rarefied" over other numbers of prompts than another policy's, or with more classes than answers."""
    different = pl.col("prompts").n_unique().over("dataset", "classes", "m") > 1
    wrong = different | (pl.col("value") > pl.col("m") + TOLERANCE)
    return tables["rarefied"].filter(wrong).select(*POLICY, "classes", "m")


CHECKS: tuple[Callable[[Tables], pl.DataFrame], ...] = (
    unsolved_numbers,
    wrong_crossings,
    uncommon_prompts,
)


def _prompts(tables: Tables) -> pl.DataFrame:
    return tables["evaluation"].group_by("dataset").agg(prompts=pl.col("prompt_id").n_unique())


def _same(value: pl.Expr, expected: pl.Expr) -> pl.Expr:
    return (value - expected).abs() <= TOLERANCE * (1.0 + expected.abs())


def all_tables(evaluations: pl.DataFrame) -> Tables:
    """The evaluations and each table that is made from them, as its schema has it."""
    of_all = study(evaluations, K)
    made = tabulate(of_all) | {"crossing": crossing(of_all)}
    return {"evaluation": evaluations} | {name: SCHEMAS[name].conform(table, name) for name, table in made.items()}


def first_alike(codes: np.ndarray) -> list[list[int | None]]:
    """For each sample the first one of its prompt with the same code; nothing for a negative code."""
    return [[None if code < 0 else row.index(code) for code in row] for row in codes.tolist()]


def evaluated(
    answers: np.ndarray, policy: tuple[str, int, int], dataset: str, style: tuple[str, ...], programs: bool
) -> pl.DataFrame:
    """The evaluation of a policy with these answers, (prompts, n) codes: negative without one, right below `WRONG`."""
    right = (answers >= 0) & (answers < WRONG)
    frame = evaluation(right, policy[0], dataset, *policy[1:], style)
    classes = first_alike(answers) if (answers >= 0).any() else None
    # Two answers share a program. Solutions of mathematics, right or wrong, share a skeleton.
    made = {"programs": first_alike(answers // 2)} if programs else {"skeletons": first_alike(answers % 2)}
    return with_classes(frame, classes, **made)


@st.composite
def evaluations(draw: st.DrawFn) -> pl.DataFrame:
    """Evaluations of the base and of some steps of some trainings on one or two datasets."""
    trainings = draw(st.sets(st.tuples(st.sampled_from(("grpo", "dph_f")), st.integers(1, 2)), min_size=1))
    steps = draw(st.sampled_from(((8,), (4, 8))))
    policies = [(BASE, 0, 0), *((*training, step) for training in sorted(trainings) for step in steps)]
    frames = []
    for dataset in draw(st.sampled_from((("d",), ("d", "e")))):
        shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 9)))
        # Few prompts are quick to draw; `rarefied` needs many.
        copies = draw(st.sampled_from((1, FEWEST_PROMPTS)))
        style = draw(st.sampled_from(((), ("a",), ("a", "b", "c"))))
        programs = draw(st.booleans())
        levels = draw(st.lists(st.sampled_from(("easy", "hard", None)), min_size=shape[0], max_size=shape[0]))
        level = pl.Series("level", levels * copies, dtype=pl.String)
        codes = arrays(np.int64, shape, elements=st.integers(-1, 2 * WRONG - 1), fill=st.nothing())
        for policy in policies:
            answers = np.tile(draw(codes), (copies, 1))
            frames.append(evaluated(answers, policy, dataset, style, programs).with_columns(level))
    return pl.concat(frames)


@settings(max_examples=25)
@given(evaluations())
def test_the_tables_of_any_evaluations_agree_with_each_other(frame: pl.DataFrame) -> None:
    tables = all_tables(frame)
    for check in CHECKS:
        wrong = check(tables)
        assert wrong.is_empty(), f"{check.__name__}: {wrong}"
    trained = [
        tables[name].filter(~pl.col("method").is_in((BASE, BASE_ITSELF))).select(*POLICY, "k")
        for name in ("keep_explore", "passk")
    ]
    assert trained[0].equals(trained[1])
