# Tables over all policies, with intervals, and in the layout of the paper.
from dphrl.report import paper

TABLES = [
    "claims",
    "comparisons",
    "consistency",
    "diversity",
    "forgetting",
    "headline",
    "headline_levels",
    "keep_explore",
    "keep_explore_levels",
    "passk",
    "style_counts",
    "styles",
]


rule tabulate:
    """The tables over all policies, with intervals."""
    input:
        evaluations=evaluations(),
    output:
        tables=expand(f"{RESULTS}/tables/{{table}}.parquet", table=TABLES),
        digests=expand(f"{RESULTS}/tables/{{table}}.parquet.sha256", table=TABLES),
        claims=f"{RESULTS}/tables/claims.md",
        texts=expand(f"{RESULTS}/tables/headline.{{ending}}", ending=["csv", "md"]),
        timings=timings("tables"),
    log:
        f"{RESULTS}/logs/tables.log",
    params:
        **stage_params(
            "make_tables.py",
            TABLES,
            slices.tables(CONFIG),
            CONFIG.seed,
        ),
        names=TABLES,
        labels=[
            [*policy, dataset]
            for policy in policies().values()
            for dataset in CONFIG.evaluate.datasets
        ],
    message:
        "estimating pass@k, styles, keep and exploration"
    script:
        "../workflow_scripts/make_tables.py"


# What the paper's tables are laid out by. Columns stand in the order of evaluate.datasets.
TASKS = {name: CONFIG.datasets[name].task for name in CONFIG.evaluate.datasets}
DRAWS = map(CONFIG.sampling.evaluate.samples, CONFIG.evaluate.datasets)
BESIDE_BASE = len(policies()) > 1 or max(DRAWS) >= 16
PAPER_TABLES = paper.names(TASKS.values(), BESIDE_BASE)
PUBLISHED = f"{workflow.basedir}/workflow_scripts/dphrl/report/published.yaml"


rule lay_out:
    """The paper's tables as this run has them, and the methods that differ in eta alone."""
    input:
        headline=f"{RESULTS}/tables/headline.parquet",
        passk=f"{RESULTS}/tables/passk.parquet",
        keep_explore=f"{RESULTS}/tables/keep_explore.parquet",
        published=PUBLISHED if CONFIG.evaluate.published else [],
    output:
        tables=expand(f"{RESULTS}/tables/paper/{{name}}.parquet", name=PAPER_TABLES),
        digests=expand(
            f"{RESULTS}/tables/paper/{{name}}.parquet.sha256", name=PAPER_TABLES
        ),
        texts=expand(
            f"{RESULTS}/tables/paper/{{name}}.{{ending}}",
            name=PAPER_TABLES,
            ending=["csv", "md", "tex"],
        ),
        ablation=f"{RESULTS}/tables/ablation.parquet",
        ablation_digest=f"{RESULTS}/tables/ablation.parquet.sha256",
        timings=timings("tables/paper"),
    log:
        f"{RESULTS}/logs/tables/paper.log",
    params:
        **stage_params(
            "lay_out.py",
            ["paper", "ablation"],
            slices.paper(CONFIG),
        ),
        names=PAPER_TABLES,
    message:
        "laying out the paper's tables"
    script:
        "../workflow_scripts/lay_out.py"


rule collect_training:
    """The metrics of all trainings in one table, and what each method cost."""
    input:
        metrics=[
            rules.train_segment.output.metrics.format(method=m, seed=s, step=n)
            for m, s, n in segments()
        ],
        times=[
            rules.train_segment.output.timings.format(method=m, seed=s, step=n)
            for m, s, n in segments()
        ],
    output:
        training=f"{RESULTS}/tables/training.parquet",
        digest=f"{RESULTS}/tables/training.parquet.sha256",
        # Beside the timings that it adds up: its bytes differ between equal runs as theirs do.
        cost=timings("training_cost"),
        timings=timings("training"),
    log:
        f"{RESULTS}/logs/training.log",
    params:
        **stage_params(
            "collect_training.py", ["training", "training_cost"], slices.NOTHING
        ),
        labels=[[method, seed] for method, seed, _ in segments()],
    message:
        "collecting training metrics"
    script:
        "../workflow_scripts/collect_training.py"
