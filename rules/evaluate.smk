# What each policy can do: per prompt, then as tables over all policies.


def rollouts_of(wildcards):
    """The evaluation rollouts of a policy on a dataset."""
    return rollout_shards(wildcards.policy, wildcards.dataset, "evaluate")


def verdicts_of(wildcards):
    """The verdicts on them."""
    return verdict_shards(wildcards.policy, wildcards.dataset, "evaluate")


rule evaluate_policy:
    """Right answers, styles and diversity of each prompt of a dataset."""
    input:
        rollouts=rollouts_of,
        verdicts=verdicts_of,
        gold=rules.audit_gold.output.gold,
    output:
        evaluation=f"{RESULTS}/evaluation/{{policy}}/{{dataset}}.parquet",
        digest=f"{RESULTS}/evaluation/{{policy}}/{{dataset}}.parquet.sha256",
        timings=timings("evaluation/{policy}/{dataset}"),
    log:
        f"{RESULTS}/logs/evaluation/{{policy}}/{{dataset}}.log",
    params:
        **stage_params(
            ["dphrl.evaluation.samples", "dphrl.evaluation.classes"],
            ["evaluation"],
            slice_of(slices.evaluate, "dataset"),
        ),
    message:
        "evaluating {wildcards.policy} on {wildcards.dataset}"
    script:
        "../workflow_scripts/evaluate_policy.py"


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
            ["dphrl.evaluation", "dphrl.report.tables"],
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


rule collect_training:
    """The metrics of all trainings in one table."""
    input:
        metrics=[
            rules.train_segment.output.metrics.format(method=m, seed=s, step=n)
            for m, s, n in segments()
        ],
    output:
        training=f"{RESULTS}/tables/training.parquet",
        digest=f"{RESULTS}/tables/training.parquet.sha256",
        timings=timings("training"),
    log:
        f"{RESULTS}/logs/training.log",
    params:
        **stage_params([], ["training"], slices.NOTHING),
        labels=[[method, seed] for method, seed, _ in segments()],
    message:
        "collecting training metrics"
    script:
        "../workflow_scripts/collect_training.py"
