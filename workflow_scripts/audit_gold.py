"""The gold answers of a dataset, each scored as if a model had given it."""

import json

from door import snakemake, stage
from dphrl.config.scoring import ScoringConfig
from dphrl.scoring import audit_gold, make_scorer
from dphrl.tasks import gold_of, read_source

with stage("sqlglot", "math-verify") as job:
    config = json.loads(snakemake.params.config)
    prompts = job.read("prompts", snakemake.input.prompts)
    gold = gold_of(prompts, read_source(job.file("source", snakemake.input.source)), config["task"])
    with make_scorer(
        config["task"], ScoringConfig(**config["scoring"]), snakemake.params.databases, snakemake.threads
    ) as scorer:
        job.write(audit_gold(gold, scorer), "gold", snakemake.output.gold)
