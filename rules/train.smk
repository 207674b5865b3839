# Training: a chain of segments for each method and seed. Each starts from the end of the previous one.


rule train_segment:
    """One segment of one training."""
    input:
        unpack(LAYOUT.start_inputs),
        unpack(LAYOUT.method_inputs),
        partition=path("partition"),
        prompts=path("prompts", **TRAINING_SET),
        gold=path("gold", **TRAINING_SET),
        databases=ancient(lambda wildcards: databases_of(TRAINING_SET)),
        world=LAYOUT.world(TRAINING_SET),
        scorer=LAYOUT.scorer(TRAINING_SET),
    output:
        **with_digests(
            policy=path("policy"), state=path("state"), metrics=path("metrics")
        ),
        timings="<timings>/train/{method}-s{seed}/step{step}.parquet",
    log:
        "<logs>/train/{method}-s{seed}/step{step}.log",
    # The longest chain of jobs: segments run before the sampling of finished policies.
    priority: 1
    threads: CONFIG.train.ranks
    resources:
        gpu=LAYOUT.gpus(CONFIG.train.ranks),
    params:
        **stage_params(
            "train.py", slice_of("metrics"), "metrics", seed=LAYOUT.training_seed
        ),
        steps=LAYOUT.segment_steps,
        database_digest=lambda wildcards: LAYOUT.database_digest(TRAINING_SET),
        # A function of the output, which Snakemake does not compare: these change no result.
        runtime=lambda wildcards, output: {
            "databases": LAYOUT.database_folder(TRAINING_SET),
            "workers": LAYOUT.workers(TRAINING_SET),
            "trackers": CONFIG.train.trackers,
            "tracking": f"{LAYOUT.root}/tracking",
            "training": f"{CONFIG.run}-{wildcards.method}-s{wildcards.seed}",
        },
    message:
        "training {wildcards.method}, seed {wildcards.seed}, up to step {wildcards.step}"
    script:
        "../workflow_scripts/train.py"
