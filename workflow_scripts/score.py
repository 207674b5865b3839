"""A verdict for each response of a shard."""

import json

import polars as pl

from dphrl.artifacts.tables import by_prompts
from dphrl.scoring.tables import score_rollouts
from script import snakemake, stage, task_scorer

with stage("sqlglot", "math-verify") as job:
    rollouts = job.scan("rollouts", snakemake.input.rollouts)
    gold = job.scan("gold", snakemake.input.gold)
    with task_scorer(json.loads(snakemake.params.config)) as scorer:
        verdicts = (score_rollouts(drawn, truths, scorer) for drawn, truths in by_prompts(rollouts, gold))
        job.write_parts(verdicts, "verdicts", snakemake.output.verdicts)
    judged = pl.scan_parquet(snakemake.output.verdicts, glob=False).select(pl.col("correct").sum(), n=pl.len())
    job.note = "{} of {} correct".format(*judged.collect().row(0))
