# Tables over all policies with intervals, the tables of the paper, and the tables about trainings.
from dphrl.store.kinds import TABLES

PAPER_TABLES = contents.paper_tables(LAYOUT)
# The paper's numbers, for runs that repeat one of its settings.
PUBLISHED = str(contents.PUBLISHED) if CONFIG.evaluate.published else []


rule make_tables:
    """The tables over all policies, with intervals."""
    input:
        evaluations=collect("<results>/evaluation/{policy}/{dataset}.parquet", policy=ASKED, dataset=SETS),
    output:
        tables=collect("<results>/tables/{table}.parquet", table=TABLES),
        claims=report("<results>/tables/claims.md", caption="claims.rst", category="Tables"),
        headline=report("<results>/tables/headline.csv", caption="headline.rst", category="Tables"),
        headline_text="<results>/tables/headline.md",
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
    """The paper's tables with the values of this run, and the ablation over eta."""
    input:
        headline="<results>/tables/headline.parquet",
        passk="<results>/tables/passk.parquet",
        keep_explore="<results>/tables/keep_explore.parquet",
        published=PUBLISHED,
    output:
        tables=collect("<results>/tables/paper/{name}.parquet", name=PAPER_TABLES),
        texts=collect("<results>/tables/paper/{name}.{ending}", name=PAPER_TABLES, ending=["csv", "md", "tex"]),
        ablation="<results>/tables/ablation.parquet",
        timings="<timings>/tables/paper.parquet",
    log:
        "<logs>/tables/paper.log",
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 2000,
        runtime=lambda wildcards, attempt: attempt * 30,
    params:
        code=code("lay_out.py", schemas=["paper", "ablation"]),
        datasets=block(slices.paper, "datasets"),
        published=block(slices.paper, "published"),
        methods=block(slices.paper, "methods"),
        names=PAPER_TABLES,
    message:
        "laying out the paper's tables"
    script:
        "../workflow_scripts/stages/lay_out.py"


rule collect_training:
    """The metrics of all trainings in one table, and what each method used and cost."""
    input:
        metrics=collect("<results>/train/{segment}/metrics.parquet", segment=SEGMENTS),
        probes=collect("<results>/train/{segment}/probes.parquet", segment=SEGMENTS),
        times=collect("<timings>/train/{segment}.parquet", segment=SEGMENTS),
    output:
        training="<results>/tables/training.parquet",
        use="<results>/tables/training_use.parquet",
        probes="<results>/tables/training_probes.parquet",
        # In the folder of the timings: like them, it differs between equal runs.
        cost="<timings>/training_cost.parquet",
        timings="<timings>/training.parquet",
    log:
        "<logs>/training.log",
    localrule: True
    params:
        code=code("collect_training.py", schemas=["training", "training_use", "training_cost", "training_probes"]),
        styles=block(slices.training, "styles"),
        labels=[[policy.method, policy.seed] for policy in LAYOUT.segments()],
    message:
        "collecting training metrics"
    script:
        "../workflow_scripts/stages/collect_training.py"
