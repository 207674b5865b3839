# Training: a chain of segments for each method and seed. Each starts from the end of the previous one.


rule train_segment:
    """One segment of one training."""
    input:
        unpack(LAYOUT.start_inputs),
        unpack(LAYOUT.method_inputs),
        partition=path("partition"),
        prompts=path("prompts", **TRAINING_SET),
        gold=path("gold", **TRAINING_SET),
        rollouts=LAYOUT.presamples(),
        databases=ancient(lambda wildcards: databases_of(TRAINING_SET)),
        world=LAYOUT.world(TRAINING_SET),
        scorer=LAYOUT.scorer(TRAINING_SET),
    output:
        **with_digests(
            policy=path("policy"),
            state=path("state"),
            metrics=path("metrics"),
            probes=path("probes"),
        ),
        timings="<timings>/train/{method}-s{seed}/step{step}.parquet",
    log:
        "<logs>/train/{method}-s{seed}/step{step}.log",
    # As in `priority` of common.smk: before the sampling of finished policies.
    priority: 1
    threads: CONFIG.hardware.ranks
    resources:
        gpu=LAYOUT.gpus(CONFIG.hardware.ranks),
    params:
        **stage_params(
            "train.py",
            slice_of("metrics"),
            "metrics",
            "probes",
            seed=LAYOUT.training_seed,
        ),
        steps=LAYOUT.segment_steps,
        database_digest=lambda wildcards: LAYOUT.database_digest(TRAINING_SET),
        # Functions of the output, which Snakemake does not compare: these change no result.
        superseded=lambda wildcards, output: LAYOUT.superseded_by(wildcards),
        runtime=lambda wildcards, output: {
            "databases": LAYOUT.database_folder(TRAINING_SET),
            "workers": LAYOUT.workers(TRAINING_SET),
            "trackers": CONFIG.train.trackers,
            "tracking": f"{LAYOUT.root}/tracking",
            "training": f"{CONFIG.run}-{wildcards.method}-s{wildcards.seed}",
            "lines": f"{LAYOUT.root}/logs/train/{wildcards.method}-s{wildcards.seed}/step{wildcards.step}.jsonl",
        },
    message:
        "training {wildcards.method}, seed {wildcards.seed}, up to step {wildcards.step}"
    script:
        "../workflow_scripts/train.py"
