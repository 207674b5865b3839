# Figures, each with a module of its own, and the page.
from dphrl.report import figures as drawings

# Without style rules there is nothing to draw of styles, without methods nothing of training; what is kept shows
# beside the base policy, or beside its second draw.
DRAWN_WITH = {
    "styles": CONFIG.evaluate.styles,
    "training": CONFIG.methods,
    "keep_explore": len(policies()) > 1 or CONFIG.sampling.evaluate.n >= 16,
}
FIGURES = [name for name in drawings.figures() if DRAWN_WITH.get(name, True)]


def table_of(wildcards):
    """The table that a figure draws."""
    return f"{RESULTS}/tables/{drawings.table(wildcards.figure)}.parquet"


def modules_of(wildcards):
    """The code of one figure, which no other figure shares."""
    return [drawings.module(wildcards.figure)]


def figure_code(wildcards):
    """Its digest."""
    return code_digest(modules_of(wildcards))


def caption_of(wildcards):
    """What to see in a figure."""
    return drawings.caption(wildcards.figure)


rule draw:
    """One figure as Vega-Lite and as SVG."""
    input:
        table=table_of,
    output:
        spec=f"{RESULTS}/figures/{{figure}}.json",
        spec_digest=f"{RESULTS}/figures/{{figure}}.json.sha256",
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        svg_digest=f"{RESULTS}/figures/{{figure}}.svg.sha256",
        timings=timings("figures/{figure}"),
    log:
        f"{RESULTS}/logs/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    params:
        modules=modules_of,
        schemas=[],
        code=figure_code,
        config=slices.NOTHING,
        seed=None,
        caption=caption_of,
    message:
        "drawing {wildcards.figure}"
    script:
        "../workflow_scripts/draw.py"


def all_timings():
    """The timings of every stage that the page tells the cost of."""
    plans = [("base", CONFIG.train_dataset, plan) for plan in ("presample", "refine")]
    plans += [
        (*pair, "evaluate") for pair in product(policies(), CONFIG.evaluate.datasets)
    ]
    drawn = [
        path
        for kind in ("rollouts", "verdicts")
        for plan in plans
        for path in shards(kind, *plan)
    ]
    trained = [
        rules.train_segment.output.timings.format(method=m, seed=s, step=n)
        for m, s, n in segments()
    ]
    return [
        *with_model([timings("policies/base"), rules.tensorise.output.timings]),
        *(path.replace(f"{RESULTS}/", f"{RESULTS}/timings/", 1) for path in drawn),
        *trained,
    ]


rule report:
    """The page that the reader opens."""
    input:
        headline=f"{RESULTS}/tables/headline.parquet",
        figures=expand(rules.draw.output.spec, figure=FIGURES),
        svgs=expand(rules.draw.output.svg, figure=FIGURES),
        datasets=rules.count_rows.output.table,
        partition=rules.refine.output.partition,
        timings=all_timings(),
    output:
        page=f"{RESULTS}/report/index.html",
        digest=f"{RESULTS}/report/index.html.sha256",
        timings=timings("report"),
    log:
        f"{RESULTS}/logs/report.log",
    params:
        **stage_params(["dphrl.report.page"], [], slices.report(CONFIG)),
        names=FIGURES,
    message:
        "writing the report"
    script:
        "../workflow_scripts/write_report.py"
