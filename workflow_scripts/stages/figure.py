"""One figure as Vega-Lite and as SVG."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report import figures
from dphrl.store.files import write_text

with stage(libraries=["altair", "vl-convert-python"]) as job:
    name, params = snakemake.wildcards.figure, snakemake.params
    table = job.read(figures.figure(name).table, snakemake.input.table)
    chart = figures.draw(name, table, params.datasets)
    write_text(Path(snakemake.output.spec), figures.to_json(chart))
    write_text(Path(snakemake.output.svg), figures.to_svg(chart))
