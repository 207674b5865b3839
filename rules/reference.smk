# The stored responses with their log-probs under the base policy. The set `reference` has the refinement samples of
# D_pef; each further set is what methods ask for by `rehearse` and `rows_per_question`.
STORED_SETS = list(CONFIG.stored) if CONFIG.has_model else []
STORED = collect("{stored}/{file}", stored=STORED_SETS, file=["responses.safetensors", "index.parquet"])
HAS_PRESAMPLES = evaluate("{stored} != 'reference'")


rule tensorise:
    """Token ids and reference log-probs of the stored responses, by the forward pass of training."""
    input:
        partition="<results>/draws/{draw}/partition/final.parquet",
        prompts="<results>/prompts/<train>.parquet",
        rollouts=collect("<results>/draws/{{draw}}/rollouts/<train>.{refinement}", refinement=REFINEMENTS),
        presamples=branch(
            HAS_PRESAMPLES, then=collect("<results>/draws/{{draw}}/rollouts/<train>.{file}", file=PRESAMPLES)
        ),
        verdicts=branch(
            HAS_PRESAMPLES, then=collect("<results>/draws/{{draw}}/verdicts/<train>.{file}", file=PRESAMPLES)
        ),
        policy=BASE_POLICY,
        weights=ancient(BASE_WEIGHTS),
    output:
        tensors="<results>/draws/{draw}/{stored}/responses.safetensors",
        index="<results>/draws/{draw}/{stored}/index.parquet",
        timings="<timings>/draws/{draw}/{stored}.parquet",
    log:
        "<logs>/draws/{draw}/{stored}.log",
    cache: SHARED
    priority: 2  # before the segments of methods that do not wait for it
    threads: CONFIG.hardware.ranks  # cores as in training; its GPUs may be fewer
    resources:
        gpu=LAYOUT.gpus(CONFIG.hardware.reference_ranks),
        mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("tensorise"),
        runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("tensorise", **wildcards),
    params:
        code=code("tensorise.py", schemas=["reference_index"]),
        # Footers have paths with these names. The cache between runs compares params, not wildcards.
        dataset=CONFIG.train_dataset,
        draw=lambda wildcards: wildcards.draw,
        dtype=block(slices.reference, "dtype"),
        topk_logprobs=block(slices.reference, "topk_logprobs"),
        rehearse=block(slices.reference, "rehearse"),
        rows_per_question=block(slices.reference, "rows_per_question"),
        hardware=not_compared(RESOLVED["hardware"]),
    message:
        "computing log-probs of {wildcards.stored}, draw {wildcards.draw}"
    script:
        "../workflow_scripts/stages/tensorise.py"
