# The division of the training set into D_pef and D_exp: by the pre-samples, then settled by one further sample.


rule find_candidates:
    """The training prompts, divided by how often their pre-samples are right."""
    input:
        gold=f"{RESULTS}/gold/{CONFIG.train_dataset}.parquet",
        verdicts=verdict_shards("base", CONFIG.train_dataset, "presample"),
    output:
        partition=f"{RESULTS}/partition/candidates.parquet",
        digest=f"{RESULTS}/partition/candidates.parquet.sha256",
        timings=timings("partition/candidates"),
    log:
        f"{RESULTS}/logs/partition/candidates.log",
    params:
        **stage_params("find_candidates.py", ["partition"], slices.candidates(CONFIG)),
    message:
        "dividing the training prompts"
    script:
        "../workflow_scripts/find_candidates.py"


rule refine:
    """The final partition: a candidate whose further sample is wrong leaves D_pef."""
    input:
        candidates=rules.find_candidates.output.partition,
        verdicts=verdict_shards("base", CONFIG.train_dataset, "refine"),
    output:
        partition=f"{RESULTS}/partition/final.parquet",
        digest=f"{RESULTS}/partition/final.parquet.sha256",
        timings=timings("partition/final"),
    log:
        f"{RESULTS}/logs/partition/final.log",
    params:
        **stage_params("refine.py", ["partition"], slices.partition(CONFIG)),
    message:
        "settling the partition"
    script:
        "../workflow_scripts/refine.py"
