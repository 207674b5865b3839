"""The metrics of all segments of all trainings in one table, and what each method used, cost and did to the probes."""

from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.evaluation.probes import training_probes
from dphrl.report.counts import training_cost, training_use
from dphrl.store.parquet import read_table

with stage("styles") as job:
    files, output = snakemake.input, snakemake.output
    styles = [StyleRule(**rule) for rule in snakemake.params.styles]
    names = [{"method": pl.lit(method), "seed": pl.lit(seed, pl.Int32)} for method, seed in snakemake.params.labels]
    inputs = [f"{method}/{seed}/{number}" for number, (method, seed) in enumerate(snakemake.params.labels)]

    def joined(schema: str, prefix: str = "") -> pl.DataFrame:
        """The tables of all segments, with the name of their training."""
        tables = zip(inputs, files[schema], names, strict=True)
        return pl.concat([job.read(prefix + key, path, schema).with_columns(**name) for key, path, name in tables])

    training, answers = joined("metrics"), joined("probes", "probes/")
    job.write(training, "training", output.training)
    job.write(training_use(training), "training_use", output.use)
    job.write(training_probes(answers, training, styles), "training_probes", output.probes)
    # Timings bypass the footer: they differ between equal runs.
    times = [
        read_table(Path(path), "timings").with_columns(**name) for name, path in zip(names, files.times, strict=True)
    ]
    job.write(training_cost(pl.concat(times)), "training_cost", output.cost)
