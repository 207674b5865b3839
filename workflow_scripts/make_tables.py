"""The tables over all policies."""

from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import tabulate
from dphrl.report.answers import claims_markdown
from dphrl.report.headline import headline_csv, headline_markdown

with stage("evaluate", libraries=["numpy", "scipy"]) as job:
    evaluations = (
        job.read(f"{method}/{number}/{step}/{dataset}", path, "evaluation").with_columns(
            method=pl.lit(method), seed=pl.lit(number, pl.Int32), step=pl.lit(step, pl.Int32), dataset=pl.lit(dataset)
        )
        for (method, number, step, dataset), path in zip(
            snakemake.params.labels, snakemake.input.evaluations, strict=True
        )
    )
    config = EvaluateConfig(**snakemake.params.evaluate)
    tables = tabulate(Study.from_evaluations(pl.concat(evaluations), config, snakemake.params.seed))
    for name, path in zip(snakemake.params.names, snakemake.output.tables, strict=True):
        job.write(tables[name], name, path)
    write_text(Path(snakemake.output.headline), headline_csv(tables["headline"], config.datasets))
    write_text(Path(snakemake.output.headline_text), headline_markdown(tables["headline"], config.datasets))
    write_text(Path(snakemake.output.claims), claims_markdown(tables["claims"]))
