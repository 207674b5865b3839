"""The partition after one further sample of each candidate."""

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.training import PartitionConfig
from dphrl.data.partition import refine
from dphrl.data.partition_counts import sizes
from dphrl.store.parquet import by_prompts

with stage("on_reject") as job:
    config = PartitionConfig(on_reject=snakemake.params.on_reject)
    candidates = job.scan("partition", snakemake.input.candidates)
    verdicts = job.scan("verdicts", snakemake.input.verdicts)
    parts = (refine(divided, judged, config) for divided, judged in by_prompts(candidates, verdicts))
    job.write(parts, "partition", snakemake.output.partition)
    job.note = sizes(pl.scan_parquet(snakemake.output.partition, glob=False))
