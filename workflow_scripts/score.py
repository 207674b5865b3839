"""A verdict for each response of a shard."""

import json

from door import snakemake, stage
from dphrl.config.scoring import ScoringConfig
from dphrl.scoring import make_scorer, score_rollouts

with stage("sqlglot", "math-verify") as job:
    config = json.loads(snakemake.params.config)
    rollouts = job.read("rollouts", snakemake.input.rollouts)
    gold = job.read("gold", snakemake.input.gold)
    with make_scorer(
        config["task"], ScoringConfig(**config["scoring"]), snakemake.params.databases, snakemake.threads
    ) as scorer:
        job.write(score_rollouts(rollouts, gold, scorer), "verdicts", snakemake.output.verdicts)
