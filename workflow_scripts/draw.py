"""One figure as Vega-Lite and as SVG."""

from pathlib import Path

from door import snakemake, stage
from dphrl.artifacts import write_text
from dphrl.report import figures

with stage("altair", "vl-convert-python") as job:
    name = snakemake.wildcards.figure
    table = figures.table(name)
    chart = figures.draw(name, job.read(table, snakemake.input.table), snakemake.params.datasets)
    write_text(Path(snakemake.output.spec), figures.to_json(chart))
    write_text(Path(snakemake.output.svg), figures.to_svg(chart))
