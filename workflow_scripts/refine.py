"""The partition, settled by one further sample of each candidate."""

import json

from door import snakemake, stage
from dphrl.artifacts.streams import by_prompts, scan, write_parts
from dphrl.config.partition import PartitionConfig
from dphrl.partition import refine

with stage() as job:
    config = PartitionConfig(**json.loads(snakemake.params.config))
    candidates = scan(job, "partition", snakemake.input.candidates)
    verdicts = scan(job, "verdicts", snakemake.input.verdicts)
    settled = (refine(divided, judged, config) for divided, judged in by_prompts(candidates, verdicts))
    write_parts(job, settled, "partition", snakemake.output.partition)
