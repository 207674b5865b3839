"""The tables in the layout of the paper, and the methods that differ in eta alone."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.report import paper
from dphrl.report.ablation import ablation
from dphrl.report.published import read_published

with stage() as job:
    config = json.loads(snakemake.params.config)
    tables = {name: job.read(name, snakemake.input[name]) for name in ("headline", "passk", "keep_explore")}
    published = None
    if config["published"]:
        published = read_published(job.file("published", snakemake.input.published), config["published"])
    for name, path in zip(snakemake.params.names, snakemake.output.tables, strict=True):
        table = paper.lay_out(name, tables, dict(config["datasets"]), published)
        job.write(table, "paper", path)
        for ending, text in paper.texts(name, table).items():
            write_text(Path(path).with_suffix(f".{ending}"), text)
    job.write(ablation(tables["headline"], config["methods"]), "ablation", snakemake.output.ablation)
