# Datasets as prompts, the audit of their gold answers, and their overlap with the training set.


# A checkpoint: whether jobs that read the databases rerun is decided when it is done, by the content of its table.
checkpoint hash_databases:
    """Name, size and sha256 of each database of a dataset, so that no other job declares gigabytes of files."""
    output:
        # `update`: the table of before stays until the new one is there, also if the job is interrupted.
        **{
            name: update(file)
            for name, file in with_digests(databases=path("databases")).items()
        },
        timings="<timings>/databases/{dataset}.parquet",
    log:
        "<logs>/databases/{dataset}.log",
    threads: 4
    params:
        **stage_params("hash_databases.py", slice_of("databases"), "databases"),
        databases=LAYOUT.database_folder,
        states=LAYOUT.database_states,
    message:
        "hashing the databases of {wildcards.dataset}"
    script:
        "../workflow_scripts/hash_databases.py"


rule prepare_prompts:
    """A dataset's rows as prompt tokens; what is rejected is listed with its reason."""
    input:
        databases=ancient(databases_of),
        world=LAYOUT.world,
        source=LAYOUT.source,
        policy=LAYOUT.if_has_model(path("base")),
    output:
        **with_digests(
            prompts=path("prompts"),
            rejected=path("rejected"),
            timings="<timings>/prompts/{dataset}.parquet",
        ),
    log:
        "<logs>/prompts/{dataset}.log",
    cache: SHARED
    priority: priority
    params:
        **stage_params("prepare_prompts.py", slice_of("prompts"), "prompts", "rejected"),
        databases=LAYOUT.database_folder,
        database_digest=LAYOUT.database_digest,
        # The cache identifies a job by its params, not by its wildcards.
        source=LAYOUT.source_name,
    message:
        "preparing the prompts of {wildcards.dataset}"
    script:
        "../workflow_scripts/prepare_prompts.py"


rule audit_gold:
    """Every gold answer, scored like an answer of a model. Sampling reads no gold: a new scorer resamples nothing."""
    input:
        databases=ancient(databases_of),
        world=LAYOUT.world,
        scorer=LAYOUT.scorer,
        source=LAYOUT.source,
        prompts=path("prompts"),
        rejected=path("rejected"),
    output:
        **with_digests(gold=path("gold")),
        timings="<timings>/gold/{dataset}.parquet",
    log:
        "<logs>/gold/{dataset}.log",
    priority: priority
    threads: LAYOUT.workers
    params:
        **stage_params("audit_gold.py", slice_of("gold"), "gold"),
        databases=LAYOUT.database_folder,
        database_digest=LAYOUT.database_digest,
    message:
        "auditing the gold answers of {wildcards.dataset}"
    script:
        "../workflow_scripts/audit_gold.py"


rule find_overlap:
    """Evaluation prompts that are training prompts too."""
    input:
        train=path("prompts", **TRAINING_SET),
        others=expand(path("prompts"), dataset=CONFIG.evaluate.datasets),
    output:
        **with_digests(overlap=path("overlap")),
        timings="<timings>/gold/overlap.parquet",
    log:
        "<logs>/gold/overlap.log",
    localrule: True
    params:
        **stage_params("find_overlap.py", slice_of("overlap"), "overlap"),
        datasets=list(CONFIG.evaluate.datasets),
    message:
        "looking for evaluation prompts in the training set"
    script:
        "../workflow_scripts/find_overlap.py"


rule count_rows:
    """How many rows of each dataset became prompts, were rejected, or lost their gold answer."""
    input:
        prompts=expand(path("prompts"), dataset=CONFIG.datasets),
        rejected=expand(path("rejected"), dataset=CONFIG.datasets),
        gold=expand(path("gold"), dataset=CONFIG.datasets),
        overlap=path("overlap"),
    output:
        **with_digests(table=path("datasets"), text="<results>/tables/datasets.md"),
        timings="<timings>/tables/datasets.parquet",
    log:
        "<logs>/tables/datasets.log",
    localrule: True
    params:
        **stage_params("count_rows.py", slice_of("datasets"), "datasets"),
        datasets=list(CONFIG.datasets),
    message:
        "counting the rows of the datasets"
    script:
        "../workflow_scripts/count_rows.py"
