"""The page that the reader opens."""

import json
from pathlib import Path

import polars as pl

from door import snakemake, stage
from dphrl.artifacts import read_table, write_text
from dphrl.report import figures
from dphrl.report.page import render_page
from dphrl.report.sizes import partition_sizes

with stage("altair", "vl-convert-python") as job:
    config, given = json.loads(snakemake.params.config), snakemake.input
    names = snakemake.params.names
    page = render_page(
        config["title"],
        job.read("headline", given.headline),
        {name: json.loads(job.file(name, path).read_text()) for name, path in zip(names, given.figures, strict=True)},
        {name: figures.caption(name) for name in names},
        partition_sizes(job.read("partition", given.partition)),
        job.read("datasets", given.datasets),
        pl.concat(read_table(Path(path), "timings") for path in given.timings),
        config["notes"],
    )
    write_text(Path(snakemake.output.page), page)
