"""The gold answers of a dataset, each scored as if a model had given it."""

import json

from dphrl.scoring.tables import audit_gold
from dphrl.tasks.gold import gold_of
from dphrl.tasks.source import read_source
from script import snakemake, stage, task_scorer

with stage("sqlglot", "math-verify") as job:
    config = json.loads(snakemake.params.config)
    prompts, rejected = job.read("prompts", snakemake.input.prompts), job.read("rejected", snakemake.input.rejected)
    rows = read_source(job.file("source", snakemake.input.source))
    reading = {"fields": config["fields"], "comparison": config["comparison"]}
    gold = gold_of(prompts, rejected, rows, config["task"], **reading)
    with task_scorer(config) as scorer:
        audited = audit_gold(gold, scorer, config["drop"])
    job.note = f"{audited['kept'].sum()} of {audited.height} kept"
    job.write(audited, "gold", snakemake.output.gold)
