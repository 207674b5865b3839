"""The tables in the layout of the paper, and the methods that differ in eta alone."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report import paper
from dphrl.report.paper import ablation, read_published
from dphrl.store.files import write_text

with stage("datasets", "published", "methods") as job:
    params = snakemake.params
    tables = {name: job.read(name, snakemake.input[name]) for name in ("headline", "passk", "keep_explore")}
    published = None
    if params.published:
        published = read_published(job.file("published", snakemake.input.published), params.published)
    for name, path in zip(params.names, snakemake.output.tables, strict=True):
        table = paper.lay_out(name, tables, dict(params.datasets), published)
        job.write(table, "paper", path)
        for ending, text in paper.texts(name, table).items():
            write_text(Path(path).with_suffix(f".{ending}"), text)
    job.write(ablation(tables["headline"], params.methods), "ablation", snakemake.output.ablation)
