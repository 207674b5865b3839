"""What a policy can do on one dataset: right answers, styles and diversity of each prompt."""

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.evaluation.per_prompt import evaluate_parts, unmatched_styles

with stage("styles") as job:
    rules = [StyleRule(**rule) for rule in snakemake.params.styles]
    inputs, output = snakemake.input, snakemake.output.evaluation
    tables = {name: job.scan(name, inputs[name]) for name in ("rollouts", "verdicts", "gold", "prompts")}
    job.write(evaluate_parts(**tables, styles=rules), "evaluation", output)
    evaluated = pl.scan_parquet(output, glob=False)
    right, samples = evaluated.select(pl.col("c", "n").sum()).collect().row(0)
    job.note = "; ".join(filter(None, [f"{right} of {samples} samples correct", unmatched_styles(evaluated)]))
