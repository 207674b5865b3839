# Datasets as prompts, the audit of their gold answers, and their overlap with the training set.


rule prepare_prompts:
    """A dataset's rows as prompt tokens; what is rejected is listed with its reason."""
    input:
        world=world_of,
        source=source_of,
        policy=manifest("base"),
    output:
        prompts=f"{RESULTS}/prompts/{{dataset}}.parquet",
        digest=f"{RESULTS}/prompts/{{dataset}}.parquet.sha256",
        rejected=f"{RESULTS}/prompts/{{dataset}}.rejected.parquet",
        rejected_digest=f"{RESULTS}/prompts/{{dataset}}.rejected.parquet.sha256",
        timings=timings("prompts/{dataset}"),
    log:
        f"{RESULTS}/logs/prompts/{{dataset}}.log",
    params:
        **stage_params(
            ["dphrl.tasks"],
            ["prompts", "rejected"],
            slice_of(slices.prompts, "dataset"),
        ),
    message:
        "preparing the prompts of {wildcards.dataset}"
    script:
        "../workflow_scripts/prepare_prompts.py"


rule audit_gold:
    """Every gold answer, scored as if a model had given it. Sampling does not read this: a fix of scoring redraws nothing."""
    input:
        world=world_of,
        source=source_of,
        prompts=rules.prepare_prompts.output.prompts,
    output:
        gold=f"{RESULTS}/gold/{{dataset}}.parquet",
        digest=f"{RESULTS}/gold/{{dataset}}.parquet.sha256",
        timings=timings("gold/{dataset}"),
    log:
        f"{RESULTS}/logs/gold/{{dataset}}.log",
    params:
        **stage_params(
            ["dphrl.tasks", "dphrl.scoring"],
            ["gold"],
            slice_of(slices.scoring, "dataset"),
        ),
        databases=databases_folder(),
    message:
        "auditing the gold answers of {wildcards.dataset}"
    script:
        "../workflow_scripts/audit_gold.py"


rule find_overlap:
    """Evaluation prompts that are training prompts too."""
    input:
        train=f"{RESULTS}/prompts/{CONFIG.train_dataset}.parquet",
        others=expand(
            rules.prepare_prompts.output.prompts, dataset=CONFIG.evaluate.datasets
        ),
    output:
        overlap=f"{RESULTS}/gold/overlap.parquet",
        digest=f"{RESULTS}/gold/overlap.parquet.sha256",
        timings=timings("gold/overlap"),
    log:
        f"{RESULTS}/logs/gold/overlap.log",
    params:
        **stage_params(["dphrl.tasks"], ["overlap"], slices.NOTHING),
        datasets=list(CONFIG.evaluate.datasets),
    message:
        "looking for evaluation prompts in the training set"
    script:
        "../workflow_scripts/find_overlap.py"
