"""What a policy can do on one dataset: right answers, styles and diversity of each prompt."""

import json

from door import snakemake, stage
from dphrl.config.evaluate import StyleRule
from dphrl.evaluation import evaluate

with stage() as job:
    rules = [StyleRule(**rule) for rule in json.loads(snakemake.params.config)["styles"]]
    kept = job.read("gold", snakemake.input.gold).filter("kept").select("prompt_id")
    rollouts = job.read("rollouts", snakemake.input.rollouts).join(kept, on="prompt_id", how="semi")
    verdicts = job.read("verdicts", snakemake.input.verdicts).join(kept, on="prompt_id", how="semi")
    result = evaluate(rollouts, verdicts, rules)
    job.write(result, "evaluation", snakemake.output.evaluation)
