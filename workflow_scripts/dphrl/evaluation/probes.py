"""Measurements during training on fixed prompts of D_pef and of D_exp."""

from collections.abc import Sequence

import polars as pl

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.evaluation.per_prompt import style_of
from dphrl.store.catalogue import SCHEMAS

_MEASURED = ["method", "seed", "step", "subset"]
_DIVERGENCE = "probe_forward_kl_"


def training_probes(answers: pl.DataFrame, training: pl.DataFrame, styles: Sequence[StyleRule]) -> pl.DataFrame:
    """Right answers, styles, classes of right answers and divergence at each measured step.

    Args:
        answers: method str, seed i32 and the columns of the table "probes", of all trainings.
        training: the table "training", whose metrics have the divergence.
        styles: rules for the task of the training set; without any the number of styles is null.

    Returns:
        The table "training_probes": means over prompts; `distinct_answers` counts classes of the right answers, and is
        null where the task has no classes.
    """
    metric = pl.col("metric")
    divergences = training.filter(metric.str.starts_with(_DIVERGENCE)).select(
        "method", "seed", "step", subset=metric.str.strip_prefix(_DIVERGENCE), forward_kl="value"
    )
    right = pl.col("answer_class").filter("correct")
    of_prompts = (
        answers.with_columns(style=style_of(styles))
        .group_by(*_MEASURED, "prompt_id")
        .agg(
            pl.col("correct").mean(),
            samples=pl.len(),
            distinct_styles=pl.col("style").drop_nulls().n_unique(),
            distinct_answers=right.drop_nulls().n_unique(),
        )
    )
    means = of_prompts.group_by(_MEASURED).agg(
        pl.len().cast(pl.Int32).alias("prompts"),
        pl.col("samples").max().cast(pl.Int32),
        pl.col("correct", "distinct_styles", "distinct_answers").mean(),
    )
    classes = answers.filter("correct")["answer_class"]
    unknown = [] if styles else ["distinct_styles"]
    unknown += ["distinct_answers"] if len(classes) and classes.is_null().all() else []
    means = means.with_columns(pl.lit(None, pl.Float64).alias(name) for name in unknown)
    probes = means.join(divergences, on=_MEASURED, how="left")
    return probes.select(list(SCHEMAS["training_probes"].columns)).sort(_MEASURED)
