"""Tables over all policies that contradict each other."""

import numpy as np
import polars as pl
import pytest
from made_evaluations import evaluation, study, with_classes
from small_run import SmallRun

from dphrl.artifacts.tables import write_table
from dphrl.audit.identities import (
    uncommon_prompts,
    unsolved_numbers,
    wrong_crossings,
    wrong_splits,
    wrong_transitions,
)
from dphrl.audit.run import audit_run, failed_checks
from dphrl.evaluation.tables import tabulate

FOOTER = {"stage": "make_tables", "config": {}, "code": "c0de", "inputs": {}, "libraries": {}, "seed": 1}


def samples(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.random((120, 8)) < generator.random((120, 1))


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    runs = []
    for number, (method, dataset) in enumerate([("base", "d"), ("grpo", "d"), ("base", "e"), ("grpo", "e")]):
        right = samples(number)
        trained = method != "base"
        frame = evaluation(right, method, dataset, seed=int(trained), step=8 * trained, style=("a", "b", "c"))
        # The right samples have one class, each wrong one has its own.
        first = np.where(right, right.argmax(axis=1)[:, None], np.arange(8)).tolist()
        runs.append(with_classes(frame, first, first))
    return tabulate(study(pl.concat(runs), [1, 2, 4, 8]))


def changed(table: pl.DataFrame, column: str, by: float) -> pl.DataFrame:
    """Another value in the row of a trained policy."""
    first = pl.int_range(pl.len()) == table["method"].to_list().index("grpo")
    return table.with_columns(pl.when(first).then(pl.col(column) + by).otherwise(column).alias(column))


@pytest.mark.parametrize("column", ["kept", "lost", "gained", "neither"])
def test_numbers_of_questions_agree_with_pass_at_k(tables: dict[str, pl.DataFrame], column: str) -> None:
    kept, passk = tables["keep_explore"], tables["passk"]
    assert unsolved_numbers(kept, passk).is_empty()
    assert ("grpo", 1, 8, "d", 1) in unsolved_numbers(changed(kept, column, 0.01), passk).rows()
    assert ("grpo", 1, 8, "d", 1) in unsolved_numbers(kept, changed(passk, "value", 0.01)).rows()
    assert unsolved_numbers(kept, passk.filter(method="base"))["method"].unique().to_list() == ["grpo"]


def test_a_crossing_agrees_with_pass_at_k(tables: dict[str, pl.DataFrame]) -> None:
    passk = tables["passk"].filter(dataset="d")
    crossed = tables["crossing"].filter(dataset="d")
    assert wrong_crossings(tables["crossing"], tables["passk"]).is_empty()
    for drop in (-1.0, 1.0):
        moved = passk.with_columns(
            pl.when(method="grpo").then(pl.col("value") + drop).otherwise("value").alias("value")
        )
        never = crossed.with_columns(k=pl.lit(None, pl.Int32))
        first = crossed.with_columns(k=pl.lit(1, pl.Int32))
        assert wrong_crossings(never, moved).height == (4 if drop < 0 else 0)
        assert wrong_crossings(first, moved).height == (0 if drop < 0 else 1)


@pytest.mark.parametrize("part", ["all", "right", "wrong", "narrowing", "rest"])
def test_the_parts_of_a_loss_add_up(tables: dict[str, pl.DataFrame], part: str) -> None:
    split, diversity = tables["diversity_split"], tables["diversity"]
    assert wrong_splits(split, diversity).is_empty()
    rows = split.with_columns(value=pl.col("value") + 0.01 * (pl.col("part") == part))
    assert wrong_splits(rows, diversity).height == 4
    other = diversity.with_columns(value=pl.col("value") + 0.01 * (pl.col("method") == "base"))
    assert wrong_splits(split, other)["classes"].to_list() == ["answers", "answers"]


def test_no_question_is_missing_among_the_transitions(tables: dict[str, pl.DataFrame]) -> None:
    moved, kept = tables["transitions"], tables["keep_explore"]
    assert wrong_transitions(moved, kept).is_empty()
    assert not wrong_transitions(changed(moved, "prompts", 0.01), kept).is_empty()
    half = moved.with_columns(prompts=pl.col("prompts") / 2)
    assert wrong_transitions(half, kept).height == 2 * 2 * 6


def test_rarefied_classes_are_over_the_same_questions(tables: dict[str, pl.DataFrame]) -> None:
    rarefied = tables["rarefied"]
    assert uncommon_prompts(rarefied).is_empty()
    assert uncommon_prompts(changed(rarefied, "prompts", -1)).height == 2
    assert uncommon_prompts(changed(rarefied, "value", 8.0)).height == 1


def test_tables_without_rows_contradict_nothing(small_run: SmallRun, tables: dict[str, pl.DataFrame]) -> None:
    for name, table in tables.items():
        write_table(table.clear(), name, small_run.root / f"tables/{name}.parquet", FOOTER)
    found = failed_checks(audit_run(small_run.root))
    assert not [text for text in found if "cannot be read" in text or "contradicts" in text]


def test_the_audit_names_a_table_that_another_contradicts(small_run: SmallRun, tables: dict[str, pl.DataFrame]) -> None:
    def problems(name: str, table: pl.DataFrame) -> str:
        for other, rows in (tables | {name: table}).items():
            write_table(rows, other, small_run.root / f"tables/{other}.parquet", FOOTER)
        return "\n".join(text for text in failed_checks(audit_run(small_run.root)) if "tables/" in text)

    problem = "tables/keep_explore.parquet: numbers of prompts that pass@k contradicts"
    assert problem not in problems("keep_explore", tables["keep_explore"])
    found = problems("keep_explore", changed(tables["keep_explore"], "kept", 0.5))
    assert f"{problem}: 1 (method grpo, seed 1, step 8, dataset d, k 1)" in found
