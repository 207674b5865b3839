# Tables over all policies with intervals, and the table of the trainings.
from dphrl.store.kinds import TABLES


rule make_tables:
    """The tables over all policies, with intervals."""
    input:
        evaluations=collect("<results>/evaluation/{policy}/{dataset}.parquet", policy=ASKED, dataset=SETS),
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
