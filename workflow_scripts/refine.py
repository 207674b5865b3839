"""The partition after one further sample of each candidate."""

import json

from script import snakemake, stage

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.partition import PartitionConfig
from dphrl.partition import refine

with stage() as job:
    config = PartitionConfig(**json.loads(snakemake.params.config))
    candidates = job.scan("partition", snakemake.input.candidates)
    verdicts = job.scan("verdicts", snakemake.input.verdicts)
    parts = (refine(divided, judged, config) for divided, judged in by_prompts(candidates, verdicts))
    job.write_parts(parts, "partition", snakemake.output.partition)
