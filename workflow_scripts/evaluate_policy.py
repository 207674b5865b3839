"""What a policy can do on one dataset: right answers, styles and diversity of each prompt."""

import json

import polars as pl

from door import snakemake, stage
from dphrl.config.evaluate import StyleRule
from dphrl.evaluation import classes, evaluate

with stage() as job:
    rules = [StyleRule(**rule) for rule in json.loads(snakemake.params.config)["styles"]]
    gold = job.read("gold", snakemake.input.gold).filter("kept")
    # Questions on one database are not independent of each other.
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    levels = job.read("prompts", snakemake.input.prompts).select("prompt_id", "level")
    marks = gold.select("prompt_id", cluster=database).join(levels, on="prompt_id", how="left", validate="1:1")
    rollouts = job.read("rollouts", snakemake.input.rollouts).join(marks, on="prompt_id", how="semi")
    verdicts = job.read("verdicts", snakemake.input.verdicts).join(marks, on="prompt_id", how="semi")
    result = evaluate(rollouts, verdicts, rules)
    for more in (classes(rollouts, verdicts), marks):
        result = result.join(more, on="prompt_id", how="left", validate="1:1", maintain_order="left")
    job.note = f"{result['c'].sum()} of {result['n'].sum()} samples correct"
    job.write(result, "evaluation", snakemake.output.evaluation)
