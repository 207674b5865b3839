"""The training prompts, divided by how many of their pre-samples are right."""

import polars as pl
from script import snakemake, stage

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.training import PartitionConfig
from dphrl.tasks.partition import candidates
from dphrl.tasks.partition_counts import sizes, thresholds

with stage("n", "partition") as job:
    rules, n = PartitionConfig(**snakemake.params.partition), snakemake.params.n
    gold, verdicts = job.scan("gold", snakemake.input.gold), job.scan("verdicts", snakemake.input.verdicts)
    parts = (candidates(answers, judged, n, rules) for judged, answers in by_prompts(verdicts, gold))
    job.write_parts(parts, "partition", snakemake.output.partition)
    divided = pl.scan_parquet(snakemake.output.partition, glob=False)
    job.note = f"{sizes(divided)}; questions by right pre-samples: {thresholds(divided) or 'none has one'}"
