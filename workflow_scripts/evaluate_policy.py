"""What a policy can do on one dataset: right answers, styles and diversity of each prompt."""

import json

import polars as pl

from door import snakemake, stage
from dphrl.artifacts.streams import scan, write_parts
from dphrl.config.evaluate import StyleRule
from dphrl.evaluation import evaluate_parts

with stage() as job:
    rules = [StyleRule(**rule) for rule in json.loads(snakemake.params.config)["styles"]]
    given, output = snakemake.input, snakemake.output.evaluation
    tables = {name: scan(job, name, given[name]) for name in ("rollouts", "verdicts", "gold", "prompts")}
    write_parts(job, evaluate_parts(**tables, styles=rules), "evaluation", output)
    right, samples = pl.scan_parquet(output, glob=False).select(pl.col("c", "n").sum()).collect().row(0)
    job.note = f"{right} of {samples} samples correct"
