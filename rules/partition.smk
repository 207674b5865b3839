# The division of the training set into D_pef and D_exp: by the pre-samples, then by one refinement sample.
DIVIDING = [] if CONFIG.partition.given else PRESAMPLES


rule find_candidates:
    """The training prompts, divided by the number of their correct pre-samples, or by two files (`partition.given`)."""
    input:
        gold="<results>/gold/<train>.parquet",
        verdicts=collect("<results>/draws/{{draw}}/verdicts/<train>.{presample}", presample=DIVIDING),
        given=LAYOUT.given_partition,
        prompts=branch(CONFIG.partition.given, then="<results>/prompts/<train>.parquet"),
    output:
        partition="<results>/draws/{draw}/partition/candidates.parquet",
        timings="<timings>/draws/{draw}/partition/candidates.parquet",
    log:
        "<logs>/draws/{draw}/partition/candidates.log",
    priority: 1
    localrule: True
    params:
        code=code("find_candidates.py", schemas=["partition"]),
        given=content(LAYOUT.given_partition),
        n=block(slices.candidates, "n"),
        partition=block(slices.candidates, "partition"),
        fields=block(slices.candidates, "fields"),
        allow_empty=not_compared(CONFIG.partition.allow_empty),
    message:
        "dividing the training prompts of draw {wildcards.draw}"
    script:
        "../workflow_scripts/stages/find_candidates.py"


rule refine:
    """The final partition: a candidate whose refinement sample is wrong leaves D_pef."""
    input:
        candidates="<results>/draws/{draw}/partition/candidates.parquet",
        verdicts=collect("<results>/draws/{{draw}}/verdicts/<train>.{refinement}", refinement=REFINEMENTS),
    output:
        partition="<results>/draws/{draw}/partition/final.parquet",
        timings="<timings>/draws/{draw}/partition/final.parquet",
    log:
        "<logs>/draws/{draw}/partition/final.log",
    priority: 1
    localrule: True
    params:
        code=code("refine.py", schemas=["partition"]),
        on_reject=block(slices.partition, "on_reject"),
    message:
        "writing the final partition of draw {wildcards.draw}"
    script:
        "../workflow_scripts/stages/refine.py"
