# What each policy can do, prompt by prompt.


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
        prompts=rules.prepare_prompts.output.prompts,
    output:
        evaluation=f"{RESULTS}/evaluation/{{policy}}/{{dataset}}.parquet",
        digest=f"{RESULTS}/evaluation/{{policy}}/{{dataset}}.parquet.sha256",
        timings=timings("evaluation/{policy}/{dataset}"),
    log:
        f"{RESULTS}/logs/evaluation/{{policy}}/{{dataset}}.log",
    params:
        **stage_params(
            "evaluate_policy.py",
            ["evaluation"],
            slice_of(slices.evaluate, "dataset"),
        ),
    message:
        "evaluating {wildcards.policy} on {wildcards.dataset}"
    script:
        "../workflow_scripts/evaluate_policy.py"
