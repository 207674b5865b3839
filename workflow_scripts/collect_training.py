"""The metrics of all segments of all trainings in one table, and what each method used and cost."""

from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.artifacts.tables import read_table
from dphrl.report.cost import training_cost, training_use

with stage() as job:
    labels, given = snakemake.params.labels, snakemake.input
    names = [{"method": pl.lit(method), "seed": pl.lit(seed, pl.Int32)} for method, seed in labels]
    metrics = [
        job.read(f"{method}/{seed}/{number}", path, "metrics").with_columns(**name)
        for number, ((method, seed), name, path) in enumerate(zip(labels, names, given.metrics, strict=True))
    ]
    training = pl.concat(metrics)
    job.write(training, "training", snakemake.output.training)
    job.write(training_use(training), "training_use", snakemake.output.use)
    # Timings bypass the footer: they differ between equal runs.
    times = [
        read_table(Path(path), "timings").with_columns(**name) for name, path in zip(names, given.times, strict=True)
    ]
    job.write(training_cost(pl.concat(times)), "training_cost", snakemake.output.cost)
