# Evaluation of each policy, prompt by prompt; weights between the base and a policy are policies of their own.


rule mix:
    """The weights between the base and a policy (`evaluate.mixtures`): no training makes them."""
    input:
        policy=lambda wildcards: f"{LAYOUT.mixed_weights(wildcards)}.json",
        weights=ancient(LAYOUT.mixed_weights),
        base=BASE_POLICY,
        base_weights=ancient(BASE_WEIGHTS),
    output:
        manifest="<results>/policies/{mixture}.json",
        weights=directory("<results>/policies/{mixture}"),
        timings="<timings>/policies/{mixture}.parquet",
    log:
        "<logs>/policies/{mixture}.log",
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 2000,
        runtime=lambda wildcards, attempt: attempt * 60,
    params:
        code=code("mix.py"),
        share=lambda wildcards: LAYOUT.mixture(wildcards)[1],
    message:
        "mixing the weights of {wildcards.mixture}"
    script:
        "../workflow_scripts/stages/mix.py"


rule evaluate_policy:
    """Right answers, styles and diversity of each prompt of an evaluation set."""
    input:
        rollouts=collect("<results>/rollouts/{{policy}}/{{dataset}}.{sample}", sample=EVALUATIONS),
        verdicts=collect("<results>/verdicts/{{policy}}/{{dataset}}.{sample}", sample=EVALUATIONS),
        gold="<results>/gold/{dataset}.parquet",
        prompts="<results>/prompts/{dataset}.parquet",
    output:
        evaluation="<results>/evaluation/{policy}/{dataset}.parquet",
        timings="<timings>/evaluation/{policy}/{dataset}.parquet",
    log:
        "<logs>/evaluation/{policy}/{dataset}.log",
    resources:
        mem_mb=lambda wildcards, input, attempt: attempt * int(2000 + 10 * input.size_mb),
        runtime=lambda wildcards, attempt: attempt * 60,
    params:
        code=code("evaluate_policy.py", schemas=["evaluation"]),
        styles=block(slices.evaluate, "styles"),
    message:
        "evaluating {wildcards.policy} on {wildcards.dataset}"
    script:
        "../workflow_scripts/stages/evaluate_policy.py"
