"""One figure as Vega-Lite and as SVG."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report import figures
from dphrl.report.paper import published_points
from dphrl.store.files import write_text

with stage("published", libraries=["altair", "vl-convert-python"]) as job:
    name = snakemake.wildcards.figure
    table = figures.figure(name).table
    published = None
    if snakemake.input.published:
        published = published_points(job.file("published", snakemake.input.published), snakemake.params.published)
    values = job.read(table, snakemake.input.table)
    chart = figures.draw(name, values, snakemake.params.datasets, published, snakemake.params.methods)
    write_text(Path(snakemake.output.spec), figures.to_json(chart))
    write_text(Path(snakemake.output.svg), figures.to_svg(chart))
