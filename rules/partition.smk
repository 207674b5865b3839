# The division of the training set into D_pef and D_exp: by the pre-samples, then by one refinement sample.


def rehearsing(wildcards, output):
    """The methods that rehearse D_pef, which may then not be empty; a function of the output is not compared."""
    return [name for name, method in CONFIG.methods.items() if method.rehearses]


rule find_candidates:
    """The training prompts, divided by how many of their pre-samples are correct."""
    input:
        gold=path("gold", **TRAINING_SET),
        verdicts=LAYOUT.shards("verdicts", BASE, CONFIG.train_dataset, "presample"),
    output:
        **with_digests(partition=path("candidates")),
        timings="<timings>/partition/candidates.parquet",
    log:
        "<logs>/partition/candidates.log",
    priority: 1
    localrule: True
    params:
        **stage_params("find_candidates.py", slice_of("candidates"), "partition"),
        rehearsing=rehearsing,
    message:
        "dividing the training prompts"
    script:
        "../workflow_scripts/find_candidates.py"


rule refine:
    """The final partition: a candidate whose refinement sample is wrong leaves D_pef."""
    input:
        candidates=path("candidates"),
        verdicts=LAYOUT.shards("verdicts", BASE, CONFIG.train_dataset, "refine"),
    output:
        **with_digests(partition=path("partition")),
        timings="<timings>/partition/final.parquet",
    log:
        "<logs>/partition/final.log",
    priority: 1
    localrule: True
    params:
        **stage_params("refine.py", slice_of("partition"), "partition"),
        rehearsing=rehearsing,
    message:
        "writing the final partition"
    script:
        "../workflow_scripts/refine.py"
