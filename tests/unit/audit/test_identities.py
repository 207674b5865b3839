"""Tables over all policies that contradict each other."""

import numpy as np
import polars as pl
import pytest
from made_evaluations import evaluation, study
from small_run import SmallRun

from dphrl.artifacts.tables import write_table
from dphrl.audit.identities import unsolved_numbers
from dphrl.audit.run import audit_run, failed_checks
from dphrl.evaluation.tables import tabulate

FOOTER = {"stage": "tabulate", "config": {}, "code": "c0de", "inputs": {}, "libraries": {}, "seed": 1}


def samples(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.random((40, 8)) < generator.random((40, 1))


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    runs = [evaluation(samples(1)), evaluation(samples(2), "grpo", seed=1, step=8)]
    runs += [evaluation(samples(3), dataset="e"), evaluation(samples(4), "grpo", "e", 1, 8)]
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


def test_the_audit_names_a_table_that_another_contradicts(small_run: SmallRun, tables: dict[str, pl.DataFrame]) -> None:
    def problems(name: str, table: pl.DataFrame) -> str:
        for other, rows in (tables | {name: table}).items():
            write_table(rows, other, small_run.root / f"tables/{other}.parquet", FOOTER)
        return "\n".join(text for text in failed_checks(audit_run(small_run.root)) if "tables/" in text)

    problem = "tables/keep_explore.parquet: numbers of prompts that pass@k contradicts"
    assert problem not in problems("keep_explore", tables["keep_explore"])
    found = problems("keep_explore", changed(tables["keep_explore"], "kept", 0.5))
    assert f"{problem}: 1 (method grpo, seed 1, step 8, dataset d, k 1)" in found
