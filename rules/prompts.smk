# Datasets as prompts, the audit of their gold answers, and their overlap with the training set.


def source_name(wildcards):
    """The name of the file of a dataset's rows, which stands in each of them."""
    return Path(source_of(wildcards)).name


rule prepare_prompts:
    """A dataset's rows as prompt tokens; what is rejected is listed with its reason."""
    input:
        databases=databases_of,
        source=source_of,
        policy=with_model(manifest("base")),
    output:
        prompts=f"{RESULTS}/prompts/{{dataset}}.parquet",
        digest=f"{RESULTS}/prompts/{{dataset}}.parquet.sha256",
        rejected=f"{RESULTS}/prompts/{{dataset}}.rejected.parquet",
        rejected_digest=f"{RESULTS}/prompts/{{dataset}}.rejected.parquet.sha256",
        timings=timings("prompts/{dataset}"),
        timings_digest=timings("prompts/{dataset}") + ".sha256",
    log:
        f"{RESULTS}/logs/prompts/{{dataset}}.log",
    cache: SHARED
    params:
        **stage_params(
            "prepare_prompts.py",
            ["prompts", "rejected"],
            slice_of(slices.prompts, "dataset"),
        ),
        databases=database_folder,
        # The cache knows a job by its params, not by its wildcards.
        source=source_name,
    message:
        "preparing the prompts of {wildcards.dataset}"
    script:
        "../workflow_scripts/prepare_prompts.py"


rule audit_gold:
    """Every gold answer, scored as if a model had given it. Sampling does not read this: a fix of scoring redraws nothing."""
    input:
        databases=databases_of,
        scorer=scorer_of,
        source=source_of,
        prompts=rules.prepare_prompts.output.prompts,
        rejected=rules.prepare_prompts.output.rejected,
    output:
        gold=f"{RESULTS}/gold/{{dataset}}.parquet",
        digest=f"{RESULTS}/gold/{{dataset}}.parquet.sha256",
        timings=timings("gold/{dataset}"),
    log:
        f"{RESULTS}/logs/gold/{{dataset}}.log",
    threads: workers_of
    params:
        **stage_params(
            "audit_gold.py",
            ["gold"],
            slice_of(slices.gold, "dataset"),
        ),
        databases=database_folder,
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
        **stage_params("find_overlap.py", ["overlap"], slices.NOTHING),
        datasets=list(CONFIG.evaluate.datasets),
    message:
        "looking for evaluation prompts in the training set"
    script:
        "../workflow_scripts/find_overlap.py"


rule count_rows:
    """What became of the rows of each dataset."""
    input:
        prompts=expand(rules.prepare_prompts.output.prompts, dataset=CONFIG.datasets),
        rejected=expand(rules.prepare_prompts.output.rejected, dataset=CONFIG.datasets),
        gold=expand(rules.audit_gold.output.gold, dataset=CONFIG.datasets),
        overlap=rules.find_overlap.output.overlap,
    output:
        table=f"{RESULTS}/tables/datasets.parquet",
        digest=f"{RESULTS}/tables/datasets.parquet.sha256",
        text=f"{RESULTS}/tables/datasets.md",
        text_digest=f"{RESULTS}/tables/datasets.md.sha256",
        timings=timings("tables/datasets"),
    log:
        f"{RESULTS}/logs/tables/datasets.log",
    params:
        **stage_params("count_rows.py", ["datasets"], slices.NOTHING),
        datasets=list(CONFIG.datasets),
    message:
        "counting the rows of the datasets"
    script:
        "../workflow_scripts/count_rows.py"
