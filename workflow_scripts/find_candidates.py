"""The training prompts, divided by how often their pre-samples are right."""

import json

from door import snakemake, stage
from dphrl.config.partition import PartitionConfig
from dphrl.partition import candidates

with stage() as job:
    config = json.loads(snakemake.params.config)
    gold, verdicts = job.read("gold", snakemake.input.gold), job.read("verdicts", snakemake.input.verdicts)
    partition = candidates(gold, verdicts, config["n"], PartitionConfig(**config["partition"]))
    job.write(partition, "partition", snakemake.output.partition)
