# Evaluation of each policy, prompt by prompt.


rule evaluate_policy:
    """Right answers, styles and diversity of each prompt of a dataset."""
    input:
        rollouts=LAYOUT.evaluation_inputs("rollouts"),
        verdicts=LAYOUT.evaluation_inputs("verdicts"),
        gold=path("gold"),
        prompts=path("prompts"),
    output:
        **with_digests(evaluation=path("evaluation")),
        timings="<timings>/evaluation/{policy}/{dataset}.parquet",
    log:
        "<logs>/evaluation/{policy}/{dataset}.log",
    params:
        **stage_params("evaluate_policy.py", slice_of("evaluation"), "evaluation"),
    message:
        "evaluating {wildcards.policy} on {wildcards.dataset}"
    script:
        "../workflow_scripts/evaluate_policy.py"
