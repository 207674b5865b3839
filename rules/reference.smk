# The stored responses of D_pef, with their log-probs under the frozen base policy.


rule tensorise:
    """Token ids and reference log-probs of the stored responses, by the forward pass of training."""
    input:
        partition=rules.refine.output.partition,
        prompts=f"{RESULTS}/prompts/{CONFIG.train_dataset}.parquet",
        rollouts=rollout_shards("base", CONFIG.train_dataset, "refine"),
        policy=manifest("base"),
    output:
        tensors=f"{RESULTS}/reference/responses.safetensors",
        tensors_digest=f"{RESULTS}/reference/responses.safetensors.sha256",
        index=f"{RESULTS}/reference/index.parquet",
        digest=f"{RESULTS}/reference/index.parquet.sha256",
        timings=timings("reference"),
        timings_digest=timings("reference") + ".sha256",
    log:
        f"{RESULTS}/logs/reference.log",
    cache: SHARED
    params:
        **stage_params("tensorise.py", ["reference_index"], slices.reference(CONFIG)),
    message:
        "computing reference log-probs"
    script:
        "../workflow_scripts/tensorise.py"
