# Figures, each with a module of its own.
from dphrl.report import figures as drawings
from dphrl.report.ablation import families

# Without style rules there is nothing to draw of styles, without methods nothing of training; what is kept shows
# beside the base policy, or beside its second draw.
DRAWN_WITH = {
    "eta": families({name: one.model_dump() for name, one in CONFIG.methods.items()}),
    "gap": len(policies()) > 1 and "base" in CONFIG.evaluate.against,
    "keep_explore": BESIDE_BASE,
    "steps": CONFIG.methods and len(steps(CONFIG.train.eval_every)) > 1,
    "style_counts": CONFIG.evaluate.styles,
    "styles": CONFIG.evaluate.styles,
    "training": CONFIG.methods,
}
FIGURES = [name for name in drawings.figures() if DRAWN_WITH.get(name, True)]


def table_of(wildcards):
    """The table that a figure draws."""
    return f"{RESULTS}/tables/{drawings.table(wildcards.figure)}.parquet"


def published_of(wildcards):
    """The published figures, where the run repeats a setting of the paper and the figure has a place for them."""
    wanted = CONFIG.evaluate.published and drawings.draws_published(wildcards.figure)
    return PUBLISHED if wanted else []


def figure_sources(wildcards):
    """The script and the module of the figure, which it imports by name: no other figure shares that."""
    return ["draw.py", drawings.module(wildcards.figure)]


def setting_of(wildcards):
    """The figure's slice of the config."""
    return slices.published(CONFIG) if published_of(wildcards) else slices.NOTHING


def figure_code(wildcards):
    """Its digest."""
    return code_digest(figure_sources(wildcards))


def caption_of(wildcards):
    """What to see in a figure."""
    return drawings.caption(wildcards.figure)


rule draw:
    """One figure as Vega-Lite and as SVG."""
    input:
        table=table_of,
        published=published_of,
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
        sources=figure_sources,
        schemas=[],
        code=figure_code,
        config=setting_of,
        seed=None,
        caption=caption_of,
        datasets=list(CONFIG.evaluate.datasets),
    message:
        "drawing {wildcards.figure}"
    script:
        "../workflow_scripts/draw.py"
