# Scoring: a verdict for each response. Sampling does not depend on it, so a fix of a scorer resamples nothing.


rule score:
    """A verdict for each response of a shard."""
    input:
        databases=ancient(databases_of),
        world=LAYOUT.world,
        scorer=LAYOUT.scorer,
        rollouts=path("rollouts"),
        gold=path("gold"),
    output:
        **with_digests(verdicts=path("verdicts")),
        timings="<timings>/verdicts/{policy}/{dataset}.{plan}/{shard}.parquet",
    log:
        "<logs>/verdicts/{policy}/{dataset}.{plan}/{shard}.log",
    priority: priority
    threads: LAYOUT.workers
    params:
        **stage_params("score.py", slice_of("verdicts"), "verdicts"),
        databases=LAYOUT.database_folder,
        database_digest=LAYOUT.database_digest,
    message:
        "scoring {wildcards.policy} on {wildcards.dataset} ({wildcards.plan})"
    script:
        "../workflow_scripts/score.py"
