"""The report page."""

import json
from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.evaluation import ReportConfig
from dphrl.report.findings import answers, title
from dphrl.report.page import render_page
from dphrl.report.page_tables import TRAINING, page_tables, partition_sizes
from dphrl.report.shown_samples import samples_of_run
from dphrl.store.files import write_text
from dphrl.store.parquet import read_table

with stage("report", libraries=["jinja2", "vl-convert-python"]) as job:
    params, inputs, config = snakemake.params, snakemake.input, ReportConfig(**snakemake.params.report)
    specs = zip(params.figures, inputs.figures, strict=True)
    papers = {name: job.read(name, path, "paper") for name, path in zip(params.tables, inputs.tables, strict=True)}
    further = {name: job.read(name, path) for name, path in zip(params.further, inputs.further, strict=True)}
    training = {name: read_table(Path(inputs[name]), name) for name in TRAINING if inputs[name]}
    read = {name: job.read(name, inputs[name]) for name in ("headline", "claims", "comparisons", "datasets")}
    answered = answers(read | further, params.answered)
    page = render_page(
        title=config.title or title(params.facts["Run"], answered),
        answers=answered,
        headline=read["headline"],
        data=read["datasets"],
        costs=pl.concat(read_table(Path(path), "timings") for path in inputs.timings),
        facts=params.facts,
        sizes=partition_sizes(job.read("partition", path) for path in inputs.partitions),
        notes=config.notes,
        tables=page_tables(papers, further, training, (params.sampled, params.policies, inputs)),
        figures={name: json.loads(job.file(name, path).read_text()) for name, path in specs},
        claims=read["claims"],
        order=params.datasets,
        samples=samples_of_run(params.sampled, params.policies, inputs, config.samples),
    )
    write_text(Path(snakemake.output.page), page)
