"""The partition, settled by one further sample of each candidate."""

import json

from door import snakemake, stage
from dphrl.config.partition import PartitionConfig
from dphrl.partition import refine

with stage() as job:
    candidates = job.read("partition", snakemake.input.candidates)
    verdicts = job.read("verdicts", snakemake.input.verdicts)
    settled = refine(candidates, verdicts, PartitionConfig(**json.loads(snakemake.params.config)))
    job.write(settled, "partition", snakemake.output.partition)
