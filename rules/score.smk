# Scoring: a verdict for each response. Sampling does not depend on it, so a fix of a scorer resamples nothing.


rule score:
    """A verdict for each response of a shard of an evaluation."""
    input:
        **DATABASES,
        rollouts="<results>/rollouts/{policy}/{dataset}.evaluate/{shard}.parquet",
        gold="<results>/gold/{dataset}.parquet",
        prompts="<results>/prompts/{dataset}.parquet",
        scorer=LAYOUT.scorer,
    output:
        verdicts="<results>/verdicts/{policy}/{dataset}.evaluate/{shard}.parquet",
        timings="<timings>/verdicts/{policy}/{dataset}.evaluate/{shard}.parquet",
    log:
        "<logs>/verdicts/{policy}/{dataset}.evaluate/{shard}.log",
    threads: LAYOUT.workers
    resources:
        mem_mb=lambda wildcards, input, threads, attempt: attempt * int(2000 + 1100 * threads + 10 * input.size_mb),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        code=code("score.py", schemas=["verdicts"]),
        task=block(slices.scoring, "task"),
        scorer=block(slices.scoring, "scorer"),
        thoughts=block(slices.scoring, "thoughts"),
        databases=not_compared(LAYOUT.database_folder),
        database_digest=LAYOUT.database_digest,
    message:
        "scoring {wildcards.policy} on {wildcards.dataset} (evaluate)"
    script:
        "../workflow_scripts/stages/score.py"


use rule score as score_draw with:
    # A verdict for each response of a shard of stage 1.
    input:
        **DATABASES,
        rollouts="<results>/draws/{draw}/rollouts/{dataset}.{plan}/{shard}.parquet",
        gold="<results>/gold/{dataset}.parquet",
        prompts="<results>/prompts/{dataset}.parquet",
        scorer=LAYOUT.scorer,
    output:
        verdicts="<results>/draws/{draw}/verdicts/{dataset}.{plan}/{shard}.parquet",
        timings="<timings>/draws/{draw}/verdicts/{dataset}.{plan}/{shard}.parquet",
    log:
        "<logs>/draws/{draw}/verdicts/{dataset}.{plan}/{shard}.log",
    priority: 1
    message:
        "scoring base on {wildcards.dataset} ({wildcards.plan}, draw {wildcards.draw})"
