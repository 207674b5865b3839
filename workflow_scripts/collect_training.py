"""The metrics of all segments of all trainings in one table."""

import polars as pl

from door import snakemake, stage

with stage() as job:
    frames = [
        job.read(f"{method}/{seed}/{number}", path, "metrics").with_columns(
            method=pl.lit(method), seed=pl.lit(seed, pl.Int32)
        )
        for number, ((method, seed), path) in enumerate(
            zip(snakemake.params.labels, snakemake.input.metrics, strict=True)
        )
    ]
    job.write(pl.concat(frames), "training", snakemake.output.training)
