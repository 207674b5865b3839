"""The partition after one further sample of each candidate."""

import polars as pl
from script import snakemake, stage

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.training import PartitionConfig
from dphrl.tasks.partition import refine
from dphrl.tasks.partition_counts import sizes

with stage("on_reject") as job:
    config = PartitionConfig(on_reject=snakemake.params.on_reject)
    candidates = job.scan("partition", snakemake.input.candidates)
    verdicts = job.scan("verdicts", snakemake.input.verdicts)
    parts = (refine(divided, judged, config) for divided, judged in by_prompts(candidates, verdicts))
    job.write_parts(parts, "partition", snakemake.output.partition)
    settled = pl.scan_parquet(snakemake.output.partition, glob=False)
    job.note = sizes(settled)
