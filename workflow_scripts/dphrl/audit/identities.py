"""Checks between the tables over all policies: numbers that two tables have, found in two ways."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from dphrl.audit.artifacts import Run, check_rows
from dphrl.layout.kinds import KINDS, fill

_TOLERANCE = 1e-6
_OF_BASE = ("dataset", "k")
_BASE_ITSELF = "base_itself"


def check_tables(run: Run) -> None:
    """The tables over all policies agree with each other."""
    for (name, *others), problem, find in _CHECKS:
        paths = [fill(KINDS["table"].path, {"table": table}) for table in (name, *others)]
        artifact, tables = run.get(paths[0]), [run.scan(path) for path in paths]
        read = [table.collect() for table in tables if table is not None]
        if artifact is not None and len(read) == len(paths):
            artifact.attempt(check_rows, artifact, [read], {f"{paths[0]}: {problem}": find})


def unsolved_numbers(kept: pl.DataFrame, passk: pl.DataFrame) -> pl.DataFrame:
    """Rows of "keep_explore" whose expected numbers of prompts do not add up to those that base and policy solve.

    kept + lost is pass@k of the base times the number of prompts, kept + gained that of the policy; so gained - lost is
    the change of what is solved.
    """
    base = passk.filter(method="base").select(*_OF_BASE, base="value")
    with_base = kept.with_columns(policy=pl.col("method").replace(_BASE_ITSELF, "base"))
    key = ["policy", "seed", "step", *_OF_BASE]
    known = with_base.join(base, on=_OF_BASE, how="left").join(
        passk.select(pl.col("method").alias("policy"), *key[1:], "value"), on=key, how="left"
    )
    prompts = pl.sum_horizontal("kept", "lost", "gained", "neither")
    before, after = (pl.col("kept") + pl.col(name) for name in ("lost", "gained"))
    right = _same(before, prompts * pl.col("base")) & _same(after, prompts * pl.col("value"))
    numbers = _same(prompts, prompts.median().over("dataset"))
    return known.filter(~(right & numbers).fill_null(False)).select("method", "seed", "step", *_OF_BASE)


def _same(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return (one - other).abs() <= _TOLERANCE * (1.0 + other.abs())


_CHECKS: tuple[tuple[tuple[str, ...], str, Callable[..., pl.DataFrame]], ...] = (
    (("keep_explore", "passk"), "numbers of prompts that pass@k contradicts", unsolved_numbers),
)
