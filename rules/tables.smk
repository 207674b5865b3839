# Tables over all policies with intervals, and the tables of the paper.
import dphrl.report
from dphrl.layout.kinds import TABLES

PAPER_TABLES = report_plan.paper_tables(LAYOUT)
PUBLISHED = f"{Path(dphrl.report.__file__).parent}/published.yaml"


rule tabulate:
    """The tables over all policies, with intervals."""
    input:
        evaluations=LAYOUT.evaluations(),
    output:
        **with_digests(tables=expand(path("table"), table=TABLES)),
        claims="<results>/tables/claims.md",
        texts=expand("<results>/tables/headline.{ending}", ending=["csv", "md"]),
        timings="<timings>/tables.parquet",
    log:
        "<logs>/tables.log",
    params:
        **stage_params("make_tables.py", slice_of("table"), *TABLES, seed=CONFIG.seed),
        names=list(TABLES),
        labels=[
            [*policy, dataset]
            for policy in LAYOUT.policies()
            for dataset in CONFIG.evaluate.datasets
        ],
    message:
        "estimating pass@k, styles, keep and exploration"
    script:
        "../workflow_scripts/make_tables.py"


rule lay_out:
    """The paper's tables with the values of this run, and the ablation over eta."""
    input:
        headline=path("table", table="headline"),
        passk=path("table", table="passk"),
        keep_explore=path("table", table="keep_explore"),
        published=PUBLISHED if CONFIG.evaluate.published else [],
    output:
        **with_digests(
            tables=expand(path("paper"), name=PAPER_TABLES), ablation=path("ablation")
        ),
        texts=expand(
            "<results>/tables/paper/{name}.{ending}",
            name=PAPER_TABLES,
            ending=["csv", "md", "tex"],
        ),
        timings="<timings>/tables/paper.parquet",
    log:
        "<logs>/tables/paper.log",
    params:
        **stage_params("lay_out.py", slice_of("paper"), "paper", "ablation"),
        names=PAPER_TABLES,
    message:
        "laying out the paper's tables"
    script:
        "../workflow_scripts/lay_out.py"


rule collect_training:
    """The metrics of all trainings in one table, and what each method used and cost."""
    input:
        metrics=LAYOUT.of_segments("metrics"),
        probes=LAYOUT.of_segments("probes"),
        times=LAYOUT.segment_timings(),
    output:
        **with_digests(
            training=path("training"),
            use=path("training_use"),
            probes=path("training_probes"),
        ),
        # In the folder of the timings: like them, it differs between equal runs.
        cost=path("training_cost"),
        timings="<timings>/training.parquet",
    log:
        "<logs>/training.log",
    localrule: True
    params:
        **stage_params(
            "collect_training.py",
            slice_of("training"),
            "training",
            "training_use",
            "training_cost",
            "training_probes",
        ),
        labels=[[policy.method, policy.seed] for policy in LAYOUT.segments()],
    message:
        "collecting training metrics"
    script:
        "../workflow_scripts/collect_training.py"
