"""What a policy can do on one dataset: right answers, styles and diversity of each prompt."""

import json

from door import snakemake, stage
from dphrl.config.evaluate import StyleRule
from dphrl.evaluation import evaluate

with stage() as job:
    rules = [StyleRule(**rule) for rule in json.loads(snakemake.params.config)["styles"]]
    kept = job.read("gold", snakemake.input.gold).filter("kept").select("prompt_id")
    frames = [job.read(name, snakemake.input[name]) for name in ("rollouts", "verdicts")]
    result = evaluate(*(frame.join(kept, on="prompt_id", how="semi") for frame in frames), rules)
    job.write(result, "evaluation", snakemake.output.evaluation)
