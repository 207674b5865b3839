"""A verdict for each response of a shard."""

import json

from door import snakemake, stage, task_scorer
from dphrl.scoring import score_rollouts

with stage("sqlglot", "math-verify") as job:
    rollouts = job.read("rollouts", snakemake.input.rollouts)
    gold = job.read("gold", snakemake.input.gold)
    with task_scorer(json.loads(snakemake.params.config)) as scorer:
        verdicts = score_rollouts(rollouts, gold, scorer)
    job.note = f"{verdicts['correct'].sum()} of {verdicts.height} correct"
    job.write(verdicts, "verdicts", snakemake.output.verdicts)
