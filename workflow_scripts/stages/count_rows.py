"""Counts of the rows of each dataset."""

from script import snakemake, stage

from dphrl.report.counts import count_rows
from dphrl.store.catalogue import SCHEMAS

with stage() as job:
    inputs, kinds = snakemake.input, ("prompts", "rejected", "gold")
    datasets = {
        name: [job.read(f"{kind}/{name}", path, kind) for kind, path in zip(kinds, paths, strict=True)]
        for name, *paths in zip(snakemake.params.datasets, inputs.prompts, inputs.rejected, inputs.gold, strict=True)
    }
    overlap = job.read("overlap", inputs.overlap) if inputs.overlap else SCHEMAS["overlap"].frame()
    job.write(count_rows(datasets, overlap), "datasets", snakemake.output.table)
