# Figures; each has a module of the same name.
from dphrl.report import figures

FIGURES = report_plan.drawn(LAYOUT)


def figure_sources(wildcards):
    """The script, and the module of the figure, which the script imports by a computed name."""
    return ["draw.py", figures.module(wildcards.figure)]


def published_of(wildcards):
    """The published numbers, if the run repeats a setting of the paper and the figure shows them."""
    wanted = CONFIG.evaluate.published and figures.draws_published(wildcards.figure)
    return PUBLISHED if wanted else []


rule draw:
    """One figure as Vega-Lite and as SVG."""
    input:
        table=lambda wildcards: path("table", table=figures.table(wildcards.figure)),
        published=published_of,
    output:
        **with_digests(
            spec="<results>/figures/{figure}.json",
            svg=report(
                "<results>/figures/{figure}.svg",
                caption="figure.rst",
                category="Figures",
                labels={"figure": "{figure}"},
            ),
        ),
        timings="<timings>/figures/{figure}.parquet",
    log:
        "<logs>/figures/{figure}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    localrule: True
    params:
        sources=figure_sources,
        schemas=[],
        code=lambda wildcards: code_digest(figure_sources(wildcards)),
        config=lambda wildcards: slices.figure(CONFIG, published_of(wildcards)),
        seed=None,
        prefix=prefix,
        caption=lambda wildcards: figures.caption(wildcards.figure),
        datasets=list(CONFIG.evaluate.datasets),
    message:
        "drawing the figure {wildcards.figure}"
    script:
        "../workflow_scripts/draw.py"
