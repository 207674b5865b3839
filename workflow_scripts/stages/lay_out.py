"""The tables in the layout of the paper, as CSV and LaTeX."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report.paper import lay_out, read_published
from dphrl.report.text_tables import write_texts

with stage("datasets", "published") as job:
    params, inputs = snakemake.params, snakemake.input
    tables = {name: job.read(name, inputs[name]) for name in ("headline", "passk")}
    published = None
    if params.published:
        published = read_published(job.file("published", inputs.published), params.published)
    for name, path in zip(params.names, snakemake.output.tables, strict=True):
        write_texts(Path(path).with_suffix(""), lay_out(name, tables, dict(params.datasets), published))
