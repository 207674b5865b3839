# Datasets as prompts, the audit of their gold answers, and their overlap with the training set.
from dphrl.store.files import database_states


# A checkpoint: whether jobs that read the databases rerun is decided when it is done, by the content of its table.
checkpoint hash_databases:
    """Name, size and sha256 of each database of a dataset, so that no other job declares gigabytes of files."""
    output:
        # `update`: the table of before stays until the new one is there, also if the job is interrupted.
        databases=update("<results>/databases/{dataset}.parquet"),
        timings="<timings>/databases/{dataset}.parquet",
    log:
        "<logs>/databases/{dataset}.log",
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        code=code("hash_databases.py", schemas=["databases"]),
        folder=LAYOUT.database_folder,
        states=lambda wildcards: database_states(LAYOUT.database_folder(wildcards)),
    message:
        "hashing the databases of {wildcards.dataset}"
    script:
        "../workflow_scripts/stages/hash_databases.py"


rule prepare_prompts:
    """A dataset's rows as prompt tokens; what is rejected is listed with its reason."""
    input:
        **DATABASES,
        source=LAYOUT.source,
        # The tokenizer is in this folder.
        policy=BASE_POLICY,
        weights=ancient(BASE_WEIGHTS),
    output:
        prompts="<results>/prompts/{dataset}.parquet",
        rejected="<results>/prompts/{dataset}.rejected.parquet",
        timings="<timings>/prompts/{dataset}.parquet",
    log:
        "<logs>/prompts/{dataset}.log",
    cache: SHARED
    priority: lambda wildcards: int(wildcards.dataset == CONFIG.train_dataset)  # all draws and trainings wait for it
    resources:
        mem_mb=lambda wildcards, input, attempt: attempt * int(2000 + 10 * input.size_mb),
        runtime=lambda wildcards, attempt: attempt * 60,
    params:
        code=code("prepare_prompts.py", schemas=["prompts", "rejected"]),
        source=content(LAYOUT.source),
        reading=block(slices.prompts, "reading"),
        prompts=block(slices.prompts, "prompts"),
        thoughts=block(slices.prompts, "thoughts"),
        databases=not_compared(LAYOUT.database_folder),
        database_digest=LAYOUT.database_digest,
        # A column, and a name in footers. The cache between runs compares params, not wildcards.
        source_name=LAYOUT.source_name,
        dataset=lambda wildcards: wildcards.dataset,
    message:
        "preparing the prompts of {wildcards.dataset}"
    script:
        "../workflow_scripts/stages/prepare_prompts.py"


rule audit_gold:
    """Every gold answer, scored like an answer of a model. Sampling reads no gold: a new scorer resamples nothing."""
    input:
        **DATABASES,
        source=LAYOUT.source,
        prompts="<results>/prompts/{dataset}.parquet",
        rejected="<results>/prompts/{dataset}.rejected.parquet",
        scorer=LAYOUT.scorer,
    output:
        gold="<results>/gold/{dataset}.parquet",
        timings="<timings>/gold/{dataset}.parquet",
    log:
        "<logs>/gold/{dataset}.log",
    priority: lambda wildcards: int(wildcards.dataset == CONFIG.train_dataset)
    threads: LAYOUT.workers
    resources:
        mem_mb=lambda wildcards, input, threads, attempt: attempt * int(2000 + 1100 * threads + 10 * input.size_mb),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        code=code("audit_gold.py", schemas=["gold"]),
        source=content(LAYOUT.source),
        reading=block(slices.gold, "reading"),
        gold=block(slices.gold, "gold"),
        task=block(slices.gold, "task"),
        scorer=block(slices.gold, "scorer"),
        databases=not_compared(LAYOUT.database_folder),
        database_digest=LAYOUT.database_digest,
    message:
        "auditing the gold answers of {wildcards.dataset}"
    script:
        "../workflow_scripts/stages/audit_gold.py"


rule find_overlap:
    """Evaluation prompts that are training prompts too."""
    input:
        train="<results>/prompts/<train>.parquet",
        others=collect("<results>/prompts/{dataset}.parquet", dataset=SETS),
    output:
        overlap="<results>/gold/overlap.parquet",
        timings="<timings>/gold/overlap.parquet",
    log:
        "<logs>/gold/overlap.log",
    localrule: True
    params:
        code=code("find_overlap.py", schemas=["overlap"]),
        datasets=SETS,
    message:
        "looking for evaluation prompts in the training set"
    script:
        "../workflow_scripts/stages/find_overlap.py"


rule count_rows:
    """How many rows of each dataset became prompts, were rejected, or lost their gold answer."""
    input:
        prompts=collect("<results>/prompts/{dataset}.parquet", dataset=CONFIG.datasets),
        rejected=collect("<results>/prompts/{dataset}.rejected.parquet", dataset=CONFIG.datasets),
        gold=collect("<results>/gold/{dataset}.parquet", dataset=CONFIG.datasets),
        overlap=branch(CONFIG.train_dataset, then="<results>/gold/overlap.parquet"),
    output:
        table="<results>/tables/datasets.parquet",
        timings="<timings>/tables/datasets.parquet",
    log:
        "<logs>/tables/datasets.log",
    localrule: True
    params:
        code=code("count_rows.py", schemas=["datasets"]),
        datasets=list(CONFIG.datasets),
    message:
        "counting the rows of the datasets"
    script:
        "../workflow_scripts/stages/count_rows.py"
