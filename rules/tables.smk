# Tables over all policies with intervals, the tables of the paper, and the tables about trainings.
from dphrl.store.kinds import TABLES

PAPER_TABLES = contents.paper_tables(LAYOUT)
# The paper's numbers, for runs that repeat one of its settings.
PUBLISHED = str(contents.PUBLISHED) if CONFIG.evaluate.published else []


rule make_tables:
    """The tables over all policies, with intervals."""
    input:
        evaluations=collect("<results>/evaluation/{policy}/{dataset}.parquet", policy=ASKED, dataset=SETS),
        claims=str(contents.CLAIMS),
    output:
        tables=collect("<results>/tables/{table}.parquet", table=TABLES),
        claims=report("<results>/tables/claims.csv", caption="claims.rst", category="Tables"),
        headline=report("<results>/tables/headline.csv", caption="headline.rst", category="Tables"),
        latex=collect("<results>/tables/{name}.tex", name=["claims", "headline"]),
        timings="<timings>/tables.parquet",
    log:
        "<logs>/tables.log",
    resources:
        mem_mb=lambda wildcards, input, attempt: attempt * int(4000 + 20 * input.size_mb),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        code=code("make_tables.py", schemas=TABLES),
        evaluate=block(slices.tables, "evaluate"),
        seed=CONFIG.seed,
        names=list(TABLES),
        labels=LAYOUT.evaluations(),
    message:
        "estimating pass@k, styles, keep and exploration"
    script:
        "../workflow_scripts/stages/make_tables.py"


rule lay_out:
    """The paper's tables with the values of this run."""
    input:
        headline="<results>/tables/headline.parquet",
        passk="<results>/tables/passk.parquet",
        published=PUBLISHED,
    output:
        tables=collect("<results>/tables/paper/{name}.csv", name=PAPER_TABLES),
        latex=collect("<results>/tables/paper/{name}.tex", name=PAPER_TABLES),
        timings="<timings>/tables/paper.parquet",
    log:
        "<logs>/tables/paper.log",
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 2000,
        runtime=lambda wildcards, attempt: attempt * 30,
    params:
        code=code("lay_out.py"),
        datasets=block(slices.paper, "datasets"),
        published=block(slices.paper, "published"),
        names=PAPER_TABLES,
    message:
        "laying out the paper's tables"
    script:
        "../workflow_scripts/stages/lay_out.py"


rule collect_training:
    """The metrics of all trainings in one table."""
    input:
        metrics=collect("<results>/train/{segment}/metrics.parquet", segment=SEGMENTS),
    output:
        training="<results>/tables/training.parquet",
        timings="<timings>/training.parquet",
    log:
        "<logs>/training.log",
    localrule: True
    params:
        code=code("collect_training.py", schemas=["training"]),
        labels=TRAININGS,
    message:
        "collecting training metrics"
    script:
        "../workflow_scripts/stages/collect_training.py"
