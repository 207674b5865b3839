# The stored responses of D_pef (refinement samples of questions that the base policy solves), with its log-probs.
STORED = ["reference/responses.safetensors", "reference/index.parquet"] if CONFIG.has_model else []


rule tensorise:
    """Token ids and reference log-probs of the stored responses, by the forward pass of training."""
    input:
        partition="<results>/draws/{draw}/partition/final.parquet",
        prompts="<results>/prompts/<train>.parquet",
        rollouts=collect("<results>/draws/{{draw}}/rollouts/<train>.{refinement}", refinement=REFINEMENTS),
        policy=BASE_POLICY,
        weights=ancient(BASE_WEIGHTS),
    output:
        tensors="<results>/draws/{draw}/reference/responses.safetensors",
        index="<results>/draws/{draw}/reference/index.parquet",
        timings="<timings>/draws/{draw}/reference.parquet",
    log:
        "<logs>/draws/{draw}/reference.log",
    cache: SHARED
    priority: 2  # before the segments of methods that do not wait for it
    threads: CONFIG.hardware.ranks  # cores as in training; its GPUs may be fewer
    resources:
        gpu=LAYOUT.gpus(CONFIG.hardware.reference_ranks),
        mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("tensorise"),
        runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("tensorise"),
    params:
        code=code("tensorise.py", schemas=["reference_index"]),
        # Footers have paths with these names. The cache between runs compares params, not wildcards.
        dataset=CONFIG.train_dataset,
        draw=lambda wildcards: wildcards.draw,
        dtype=block(slices.reference, "dtype"),
        topk_logprobs=block(slices.reference, "topk_logprobs"),
        hardware=not_compared(RESOLVED["hardware"]),
    message:
        "computing reference log-probs of draw {wildcards.draw}"
    script:
        "../workflow_scripts/stages/tensorise.py"
