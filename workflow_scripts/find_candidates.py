"""The training prompts, divided by how often their pre-samples are right."""

import json

from door import snakemake, stage
from dphrl.artifacts.streams import by_prompts, scan, write_parts
from dphrl.config.partition import PartitionConfig
from dphrl.partition import candidates

with stage() as job:
    config = json.loads(snakemake.params.config)
    rules, n = PartitionConfig(**config["partition"]), config["n"]
    gold, verdicts = scan(job, "gold", snakemake.input.gold), scan(job, "verdicts", snakemake.input.verdicts)
    divided = (candidates(truths, judged, n, rules) for judged, truths in by_prompts(verdicts, gold))
    write_parts(job, divided, "partition", snakemake.output.partition)
