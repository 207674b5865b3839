"""Checks between the tables over all policies: numbers that two tables have, found in two ways."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.audit.artifacts import Run, check_rows
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.layout.kinds import KINDS, fill

_TOLERANCE = 1e-6
_POLICY = ("method", "seed", "step", "dataset")
_OF_BASE = ("dataset", "k")
_SPLIT = "diversity_split"


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
    base = passk.filter(method=BASE).select(*_OF_BASE, base="value")
    with_base = kept.with_columns(policy=pl.col("method").replace(BASE_ITSELF, BASE))
    key = ["policy", "seed", "step", *_OF_BASE]
    known = with_base.join(base, on=_OF_BASE, how="left").join(
        passk.select(pl.col("method").alias("policy"), *key[1:], "value"), on=key, how="left"
    )
    prompts = pl.sum_horizontal("kept", "lost", "gained", "neither")
    before, after = (pl.col("kept") + pl.col(name) for name in ("lost", "gained"))
    right = _same(before, prompts * pl.col("base")) & _same(after, prompts * pl.col("value"))
    numbers = _same(prompts, prompts.median().over("dataset"))
    return known.filter(~(right & numbers).fill_null(False)).select("method", "seed", "step", *_OF_BASE)


def wrong_crossings(crossed: pl.DataFrame, passk: pl.DataFrame) -> pl.DataFrame:
    """Policies of "crossing" that "passk" has below the base at an earlier k, or not below at that k."""
    base = passk.filter(method=BASE).select("dataset", at="k", base="value")
    policies = passk.select(*_POLICY, at="k", value="value")
    known = crossed.join(policies, on=_POLICY).join(base, on=("dataset", "at"))
    below = (pl.col("value") < pl.col("base") - _TOLERANCE) & (pl.col("at") <= pl.col("up_to"))
    early = below & (pl.col("at") < pl.col("k")).fill_null(True)
    late = (pl.col("value") > pl.col("base") + _TOLERANCE) & (pl.col("at") == pl.col("k"))
    return known.filter(early | late.fill_null(False)).select(*_POLICY, "k", "at")


def wrong_splits(split: pl.DataFrame, diversity: pl.DataFrame) -> pl.DataFrame:
    """Rows of "diversity_split" whose parts do not add up, or whose wrong answers are not those of "diversity"."""
    values = (
        pl.col("value").filter(pl.col("part") == part).sum().alias(part) for part in SCHEMAS[_SPLIT].enums["part"]
    )
    parts = split.group_by(*_POLICY, "classes", maintain_order=True).agg(*values)
    wrong = diversity.filter(metric="distinct_answers_wrong").select(*_POLICY, "value")
    base = wrong.filter(method=BASE).select("dataset", base="value")
    known = parts.join(wrong, on=_POLICY, how="left").join(base, on="dataset", how="left")
    right = _same(pl.col("all"), pl.col("right") + pl.col("wrong"))
    right &= _same(pl.col("right"), pl.col("narrowing") + pl.col("rest"))
    answers = _same(pl.col("wrong"), pl.col("base") - pl.col("value")) | (pl.col("classes") != "answers")
    return known.filter(~(right & answers).fill_null(False)).select(*_POLICY, "classes")


def wrong_transitions(moved: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Rates of the base in "transitions" that differ between policies, and policies with another number of prompts."""
    prompts = pl.sum_horizontal("kept", "lost", "gained", "neither").first()
    of_dataset = kept.group_by("dataset").agg(prompts=prompts)
    rates = moved.group_by(*_POLICY, "base_percent", maintain_order=True).agg(number=pl.col("prompts").sum())
    known = rates.join(of_dataset, on="dataset", how="left")
    same = _same(pl.col("number"), pl.col("number").median().over("dataset", "base_percent"))
    whole = _same(pl.col("number").sum().over(_POLICY), pl.col("prompts"))
    return known.filter(~(same & whole).fill_null(False)).select(*_POLICY, "base_percent")


def uncommon_prompts(rarefied: pl.DataFrame) -> pl.DataFrame:
    """Rows of "rarefied" over other numbers of prompts than another policy's, or with more classes than answers."""
    different = pl.col("prompts").n_unique().over("dataset", "classes", "m") > 1
    return rarefied.filter(different | (pl.col("value") > pl.col("m") + _TOLERANCE)).select(*_POLICY, "classes", "m")


def _same(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return (one - other).abs() <= _TOLERANCE * (1.0 + other.abs())


_CHECKS: tuple[tuple[tuple[str, ...], str, Callable[..., pl.DataFrame]], ...] = (
    (("keep_explore", "passk"), "numbers of prompts that pass@k contradicts", unsolved_numbers),
    (("crossing", "passk"), "crossings that pass@k contradicts", wrong_crossings),
    ((_SPLIT, "diversity"), "parts of a loss that do not add up", wrong_splits),
    (("transitions", "keep_explore"), "questions that are missing or moved", wrong_transitions),
    (("rarefied",), "policies over different prompts", uncommon_prompts),
)
