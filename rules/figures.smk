# The figures.
from dphrl.report import figures

FIGURES = contents.drawn(LAYOUT)


rule figure:
    """One figure as Vega-Lite and as SVG."""
    input:
        table=lambda wildcards: f"<results>/tables/{figures.figure(wildcards.figure).table}.parquet",
    output:
        spec="<results>/figures/{figure}.json",
        svg=report("<results>/figures/{figure}.svg", caption="figure.rst", category="Figures"),
        timings="<timings>/figures/{figure}.parquet",
    log:
        "<logs>/figures/{figure}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    localrule: True
    params:
        # The script imports the module of the figure by its name, which no static graph shows.
        code=lambda wildcards: code("figure.py", modules=[figures.module(wildcards.figure)]),
        caption=lambda wildcards: figures.figure(wildcards.figure).caption,
        datasets=SETS,
    message:
        "drawing the figure {wildcards.figure}"
    script:
        "../workflow_scripts/stages/figure.py"
