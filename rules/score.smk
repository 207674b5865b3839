# Scoring: a verdict for each response. It reads no policy and no plan, so a fix here reruns no sampling.


rule score:
    """A verdict for each response of a shard."""
    input:
        databases=databases_of,
        scorer=scorer_of,
        rollouts=rules.sample.output.rollouts,
        gold=rules.audit_gold.output.gold,
    output:
        verdicts=f"{RESULTS}/verdicts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.parquet",
        digest=f"{RESULTS}/verdicts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.parquet.sha256",
        timings=timings("verdicts/{policy}/{dataset}.{plan}/{shard}"),
    log:
        f"{RESULTS}/logs/verdicts/{{policy}}/{{dataset}}.{{plan}}/{{shard}}.log",
    threads: workers_of
    params:
        **stage_params("score.py", ["verdicts"], slice_of(slices.scoring, "dataset")),
        databases=database_folder,
    message:
        "scoring {wildcards.policy} on {wildcards.dataset} ({wildcards.plan})"
    script:
        "../workflow_scripts/score.py"
