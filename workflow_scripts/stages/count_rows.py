"""Counts of the rows of each dataset, as a table and as Markdown."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report.counts import Prepared, count_rows
from dphrl.report.headline import markdown_table
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import write_text

with stage() as job:
    inputs, kinds = snakemake.input, ("prompts", "rejected", "gold")
    datasets = {
        name: Prepared(*(job.read(f"{kind}/{name}", path, kind) for kind, path in zip(kinds, paths, strict=True)))
        for name, *paths in zip(snakemake.params.datasets, inputs.prompts, inputs.rejected, inputs.gold, strict=True)
    }
    overlap = job.read("overlap", inputs.overlap) if inputs.overlap else SCHEMAS["overlap"].frame()
    counts = count_rows(datasets, overlap)
    job.write(counts, "datasets", snakemake.output.table)
    write_text(Path(snakemake.output.text), markdown_table([counts.columns, *counts.rows()]))
