"""The training prompts, divided by how often their pre-samples are right."""

import json

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.partition import PartitionConfig
from dphrl.partition import candidates
from script import snakemake, stage

with stage() as job:
    config = json.loads(snakemake.params.config)
    rules, n = PartitionConfig(**config["partition"]), config["n"]
    gold, verdicts = job.scan("gold", snakemake.input.gold), job.scan("verdicts", snakemake.input.verdicts)
    divided = (candidates(truths, judged, n, rules) for judged, truths in by_prompts(verdicts, gold))
    job.write_parts(divided, "partition", snakemake.output.partition)
