# Sampling: one rule for pre-sampling, refinement and evaluation; they differ in prompts, policy and plan.


rule sample:
    """Responses of a policy to one shard of a dataset's prompts."""
    input:
        unpack(LAYOUT.sampling_inputs),
        prompts=path("prompts"),
    output:
        **with_digests(
            rollouts=path("rollouts"),
            timings="<timings>/rollouts/{policy}/{dataset}.{plan}/{shard}.parquet",
        ),
    log:
        "<logs>/rollouts/{policy}/{dataset}.{plan}/{shard}.log",
    cache: SHARED
    priority: priority
    resources:
        gpu=LAYOUT.sampling_gpus,
    params:
        **stage_params("sample.py", slice_of("rollouts"), "rollouts", seed=CONFIG.seed),
        shards=LAYOUT.shard_count,
        # The cache identifies a job by its params, not by its wildcards.
        part=LAYOUT.policy_plan_and_shard,
    message:
        "sampling {wildcards.policy} on {wildcards.dataset} ({wildcards.plan})"
    script:
        "../workflow_scripts/sample.py"
