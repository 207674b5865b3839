"""The tables over all policies."""

from collections import defaultdict
from pathlib import Path

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import tabulate
from dphrl.report.claims import claims_in_one, claims_of_run
from dphrl.report.collapse import collapse
from dphrl.report.headline import datasets_in_order, headline_table
from dphrl.report.text_tables import write_texts

with stage("evaluate", libraries=["numpy", "scipy"]) as job:
    # By higher temperature; () has none.
    evaluations = defaultdict(list)
    order = list(dict.fromkeys(dataset for _, _, _, dataset, *_ in snakemake.params.labels))
    for label, path in zip(snakemake.params.labels, snakemake.input.evaluations, strict=True):
        method, number, step, dataset, *hotter = label
        key = dict(method=pl.lit(method), seed=pl.lit(number, pl.Int32), step=pl.lit(step, pl.Int32))
        rows = job.read("/".join(map(str, label)), path, "evaluation")
        evaluations[*hotter].append(rows.with_columns(**key, dataset=pl.lit(dataset)))
    config, seed = EvaluateConfig(**snakemake.params.evaluate), snakemake.params.seed
    elsewhere = {method for method, _, step, *_ in snakemake.params.labels if not step}
    claims = claims_of_run(config.claims.primary, elsewhere)
    studies = {
        of: Study.from_evaluations(pl.concat(frames), config, seed, claims) for of, frames in evaluations.items()
    }
    study = studies.pop(())
    tables = tabulate(study) | collapse(study, {temperature: drawn for (temperature,), drawn in studies.items()})
    for name, path in zip(snakemake.params.names, snakemake.output.tables, strict=True):
        job.write(tables[name], name, path)
    headline = headline_table(tables["headline"], datasets_in_order(tables["headline"], order))
    for name, text in {"headline": headline, "claims": claims_in_one(tables["claims"])}.items():
        write_texts(Path(snakemake.output[name]).with_suffix(""), text)
