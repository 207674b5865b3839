"""The report page."""

import json
from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.report.counts import training_use
from dphrl.report.notes import ended_early, unanswered
from dphrl.report.page import render_page
from dphrl.report.page_tables import partition_sizes
from dphrl.report.published import read_published
from dphrl.store.files import write_text
from dphrl.store.parquet import read_table

with stage("report", libraries=["jinja2", "vl-convert-python"]) as job:
    params, inputs = snakemake.params, snakemake.input
    tables = {name: job.read(name, path) for name, path in zip(params.tables, inputs.tables, strict=True)}
    timings = {name: [read_table(Path(path), "timings") for path in inputs[name]] for name in params.stages}
    training = job.read("training", inputs.training) if inputs.training else None
    specs = zip(params.figures, inputs.figures, strict=True)
    ended = [] if training is None else ended_early(training, tables["headline"])
    missing = unanswered(params.sampled, params.policies, inputs.rollouts, inputs.verdicts)
    page = render_page(
        run=params.facts["Run"],
        title=params.report["title"],
        tables=tables,
        dataset=params.answered,
        order=params.datasets,
        figures={name: json.loads(job.file(name, path).read_text()) for name, path in specs},
        published=read_published(params.published) if params.published else [],
        use=None if training is None else training_use(training, params.labels, timings["trainings"]),
        timings={name: pl.concat(frames) for name, frames in timings.items() if frames},
        facts=params.facts | partition_sizes(job.read("partition", path) for path in inputs.partitions),
        notes=[*params.report["notes"], *ended, *missing],
        sampled=params.sampled,
    )
    write_text(Path(snakemake.output.page), page)
