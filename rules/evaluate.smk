# Evaluation of each policy, prompt by prompt.


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
