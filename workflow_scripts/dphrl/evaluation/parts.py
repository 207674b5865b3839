"""An evaluation of more rollouts than memory holds: some prompts at a time."""

from collections.abc import Iterator, Sequence

import polars as pl

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.evaluate import StyleRule
from dphrl.evaluation.classes import classes
from dphrl.evaluation.per_prompt import KEY, alike, evaluate


def evaluate_parts(
    rollouts: pl.LazyFrame,
    verdicts: pl.LazyFrame,
    gold: pl.LazyFrame,
    prompts: pl.LazyFrame,
    styles: Sequence[StyleRule],
) -> Iterator[pl.DataFrame]:
    """The table "evaluation" in parts: what `evaluate` and `classes` tell, and the cluster and level of each prompt.

    Args:
        rollouts, verdicts: of a policy on a dataset, in key order; prompts whose gold is not kept are left out.
        gold, prompts: of the dataset.
        styles: as for `evaluate`.

    Raises:
        ValueError: as `evaluate`.
    """
    # Questions on one database are not independent of each other.
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    kept, texts = gold.filter("kept"), rollouts.select(*KEY, "text")
    told = by_prompts(verdicts.select(*KEY, "answer_class", "program_class"), kept.select("prompt_id"))
    dataset = alike(_of(marks, judged) for judged, marks in told)
    marked, levels = kept.select("prompt_id", cluster=database), prompts.select("prompt_id", "level")
    for *samples, marks, level in by_prompts(texts, verdicts, marked, levels):
        drawn, judged = (_of(marks, frame) for frame in samples)
        if drawn.height or judged.height:
            part = evaluate(drawn, judged, styles, dataset)
            marks = marks.join(level, on="prompt_id", how="left", validate="1:1")
            for more in (classes(drawn, judged, dataset), marks):
                part = part.join(more, on="prompt_id", how="left", validate="1:1", maintain_order="left")
            yield part


def _of(prompts: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.join(prompts, on="prompt_id", how="semi")
