"""A verdict for each response of a shard."""

import json

import polars as pl

from door import snakemake, stage, task_scorer
from dphrl.artifacts.streams import by_prompts, scan, write_parts
from dphrl.scoring import score_rollouts

with stage("sqlglot", "math-verify") as job:
    rollouts = scan(job, "rollouts", snakemake.input.rollouts)
    gold = scan(job, "gold", snakemake.input.gold)
    with task_scorer(json.loads(snakemake.params.config)) as scorer:
        verdicts = (score_rollouts(drawn, truths, scorer) for drawn, truths in by_prompts(rollouts, gold))
        write_parts(job, verdicts, "verdicts", snakemake.output.verdicts)
    judged = pl.scan_parquet(snakemake.output.verdicts, glob=False).select(pl.col("correct").sum(), n=pl.len())
    job.note = "{} of {} correct".format(*judged.collect().row(0))
