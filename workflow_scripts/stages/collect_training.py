"""The metrics of all segments of all trainings in one table."""

import polars as pl
from script import snakemake, stage

with stage() as job:
    segments = []
    for number, (method, seed) in enumerate(snakemake.params.labels):
        rows = job.read(f"{method}/{seed}/{number}", snakemake.input.metrics[number], "metrics")
        segments.append(rows.with_columns(method=pl.lit(method), seed=pl.lit(seed, pl.Int32)))
    job.write(pl.concat(segments), "training", snakemake.output.training)
