# Sampling: one rule for pre-sampling, refinement and evaluation, which differ in prompts, policy and plan.


def candidates_of(wildcards):
    """Only refinement looks at the partition: its prompts are the candidates for D_pef."""
    return (
        {"candidates": f"{RESULTS}/partition/candidates.parquet"}
        if wildcards.plan == "refine"
        else {}
    )


def answers_of(wildcards):
    """Where a policy's answers come from: its model, or the file in which they were recorded."""
    recorded = CONFIG.replay.get(wildcards.policy, {}).get(wildcards.dataset)
    if recorded is None:
        return {"policy": manifest(wildcards.policy)}
    return {"recorded": recorded, "policy": with_model(manifest("base"))}


def shard_count(wildcards):
    """Jobs that a plan's prompts are spread over."""
    return getattr(CONFIG.sampling, wildcards.plan).shards


def part_of(wildcards):
    """Which of a policy's answers to a dataset: plan and shard."""
    return [wildcards.plan, int(wildcards.shard)]


rule sample:
    """Responses of a policy to one shard of a dataset's prompts."""
    input:
        unpack(candidates_of),
        unpack(answers_of),
        prompts=rules.prepare_prompts.output.prompts,
    output:
        rollouts=f"{RESULTS}/rollouts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.parquet",
        digest=f"{RESULTS}/rollouts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.parquet.sha256",
        timings=timings("rollouts/{policy}/{dataset}.{plan}/{shard}"),
        timings_digest=timings("rollouts/{policy}/{dataset}.{plan}/{shard}") + ".sha256",
    log:
        f"{RESULTS}/logs/rollouts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.log",
    cache: SHARED
    params:
        **stage_params(
            "sample.py",
            ["rollouts"],
            slice_of(slices.sample, "policy", "dataset", "plan"),
            CONFIG.seed,
        ),
        shards=shard_count,
        # The cache knows a job by its params, not by its wildcards.
        part=part_of,
    message:
        "sampling {wildcards.policy} on {wildcards.dataset} ({wildcards.plan})"
    script:
        "../workflow_scripts/sample.py"
