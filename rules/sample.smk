# Sampling: responses of a policy to the prompts of a dataset. Recorded answers (block `replay`) stand for samples.

# Recorded answers are tokenised by the base policy, if the run has one.
SAMPLED_POLICY = branch(LAYOUT.recorded, then=BASE_POLICY, otherwise=lambda w: f"{LAYOUT.sampled_weights(w)}.json")
SAMPLED_WEIGHTS = branch(LAYOUT.recorded, then=BASE_WEIGHTS, otherwise=LAYOUT.sampled_weights)


rule sample:
    """Greedy response and n samples of a policy for each prompt of a shard of an evaluation set."""
    input:
        prompts="<results>/prompts/{dataset}.parquet",
        policy=SAMPLED_POLICY,
        weights=ancient(SAMPLED_WEIGHTS),
        recorded=LAYOUT.recorded,  # a file of the block `replay`, or none
    output:
        rollouts="<results>/rollouts/{policy}/{dataset}.evaluate/{shard}.parquet",
        timings="<timings>/rollouts/{policy}/{dataset}.evaluate/{shard}.parquet",
    log:
        "<logs>/rollouts/{policy}/{dataset}.evaluate/{shard}.log",
    cache: SHARED
    resources:
        gpu=LAYOUT.sampling_gpus,
        mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("sample"),
        runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("sample", plan="evaluate", **wildcards),
    params:
        code=code("sample.py", schemas=["rollouts"]),
        engine=block(slices.sample, "engine"),
        plan=block(slices.sample, "plan"),
        seed=CONFIG.seed,
        part=lambda wildcards: shard_of_plan(wildcards.policy, "evaluate", wildcards),
        hardware=not_compared(RESOLVED["hardware"]),
    message:
        "sampling {wildcards.policy} on {wildcards.dataset} (evaluate)"
    script:
        "../workflow_scripts/stages/sample.py"


use rule sample as sample_draw with:
    # Stage 1: the base policy on the training set. `presample`: n samples of a prompt; `refine`: one of a candidate.
    # Inputs and resources are replaced whole, of the params only `part`. Script and seed are as in `sample`.
    input:
        prompts="<results>/prompts/{dataset}.parquet",
        policy=BASE_POLICY,
        weights=ancient(BASE_WEIGHTS),
        recorded=LAYOUT.recorded,  # of the block `replay.base`, or none
        candidates=branch(evaluate("{plan} == 'refine'"), then="<results>/draws/{draw}/partition/candidates.parquet"),
    output:
        rollouts="<results>/draws/{draw}/rollouts/{dataset}.{plan}/{shard}.parquet",
        timings="<timings>/draws/{draw}/rollouts/{dataset}.{plan}/{shard}.parquet",
    log:
        "<logs>/draws/{draw}/rollouts/{dataset}.{plan}/{shard}.log",
    # Stated again: `with` sets it to False (`apply_modifier` in Snakemake's ruleinfo.py).
    cache: SHARED
    # The trainings wait for it.
    priority: 1
    resources:
        gpu=LAYOUT.sampling_gpus,
        mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("sample"),
        runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("sample", **wildcards),
    params:
        part=lambda wildcards: shard_of_plan("base", wildcards.plan, wildcards),
    message:
        "sampling base on {wildcards.dataset} ({wildcards.plan}, draw {wildcards.draw})"
