# The stored responses of D_pef, with their log-probs under the frozen base policy.


rule tensorise:
    """Token ids and reference log-probs of the stored responses, by the forward pass of training."""
    input:
        partition=path("partition"),
        prompts=path("prompts", **TRAINING_SET),
        rollouts=LAYOUT.shards("rollouts", BASE, CONFIG.train_dataset, "refine"),
        policy=path("base"),
    output:
        **with_digests(
            tensors=path("tensors"),
            index=path("index"),
            timings="<timings>/reference.parquet",
        ),
    log:
        "<logs>/reference.log",
    cache: SHARED
    priority: 2  # before the segments of methods that do not need it: it is one more job of a chain
    # As many as train with the same model.
    threads: CONFIG.hardware.ranks
    resources:
        gpu=LAYOUT.gpus(CONFIG.hardware.reference_ranks),
    params:
        **stage_params("tensorise.py", slice_of("index"), "reference_index"),
    message:
        "computing reference log-probs"
    script:
        "../workflow_scripts/tensorise.py"
