# Training: a chain of segments for each method and seed. Each starts from the end of the one before.
PROBED = PRESAMPLES if CONFIG.train.probe.prompts else []
# The questions that each method needs. They are no param of the partition: the cache between runs would compare them
# for the stored responses, which runs with other methods share.
NEEDS = {
    name: dict(
        rehearses=method.rehearse if method.rehearses else None,
        explores=method.rollout_on == "exp",
        prompts=CONFIG.train.prompts_per_step,
    )
    for name, method in CONFIG.methods.items()
}


rule train_segment:
    """One segment of one training: the policy and the optimizer state after `step` steps."""
    input:
        **DATABASES,
        policy=from_step_before("<results>/policies/{method}-s{seed}/step{step}.json", BASE_POLICY),
        weights=ancient(from_step_before("<results>/policies/{method}-s{seed}/step{step}", BASE_WEIGHTS)),
        state=from_step_before("<results>/states/{method}-s{seed}/step{step}.json", []),
        optimizer=ancient(from_step_before("<results>/states/{method}-s{seed}/step{step}", [])),
        # Only with train.stop: they say whether the training has ended.
        metrics=LAYOUT.metrics_before,
        partition=in_draw("<results>/draws/{draw}/partition/final.parquet"),
        prompts="<results>/prompts/<train>.parquet",
        gold="<results>/gold/<train>.parquet",
        # Methods that rehearse.
        reference=branch(has("rehearses"), then=in_draw("<results>/draws/{draw}/{stored}/responses.safetensors")),
        reference_index=branch(has("rehearses"), then=in_draw("<results>/draws/{draw}/{stored}/index.parquet")),
        # Methods that need the base policy next to the trained one.
        base=branch(has("needs_base"), then=BASE_POLICY),
        base_weights=ancient(branch(has("needs_base"), then=BASE_WEIGHTS)),
        functions=has("files"),
        # The pre-samples, with which the probes compare.
        rollouts=collect("<results>/draws/{draw}/rollouts/<train>.{presample}", draw=LAYOUT.draw_of, presample=PROBED),
        scorer=LAYOUT.scorer,
    output:
        policy="<results>/policies/{method}-s{seed}/step{step}.json",
        weights=directory("<results>/policies/{method}-s{seed}/step{step}"),
        state="<results>/states/{method}-s{seed}/step{step}.json",
        optimizer=directory("<results>/states/{method}-s{seed}/step{step}"),
        metrics="<results>/train/{method}-s{seed}/step{step}/metrics.parquet",
        probes="<results>/train/{method}-s{seed}/step{step}/probes.parquet",
        timings="<timings>/train/{method}-s{seed}/step{step}.parquet",
    log:
        "<logs>/train/{method}-s{seed}/step{step}.log",
    # Before the sampling of finished policies.
    priority: 1
    threads: CONFIG.hardware.ranks  # one process per rank
    resources:
        gpu=LAYOUT.gpus(CONFIG.hardware.ranks),
        mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("train_segment"),
        runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("train_segment", **wildcards),
    params:
        code=code("train_segment.py", schemas=["metrics", "probes"]),
        train=block(slices.train, "train"),
        method=block(slices.train, "method"),
        engine=block(slices.train, "engine"),
        task=block(slices.train, "task"),
        scorer=block(slices.train, "scorer"),
        thoughts=block(slices.train, "thoughts"),
        # None unless the number of ranks decides which prompts replace others.
        ranks=block(slices.train, "ranks"),
        seed=lambda wildcards: int(wildcards.seed),
        steps=LAYOUT.first_and_last_step,
        database_digest=LAYOUT.database_digest,
        # The first training refuses what any of them lacks.
        needs=not_compared(lambda w: {w.method: NEEDS[w.method]} if CONFIG.partition.allow_empty else NEEDS),
        # With train.keep_state newest the job first removes the states and the unevaluated policies before its first
        # step, manifests and folders. Snakemake's temp() would remove them too early (decisions/training-state.md).
        superseded=not_compared(LAYOUT.superseded_before),
        hardware=not_compared(RESOLVED["hardware"]),
        databases=not_compared(LAYOUT.database_folder),
        workers=not_compared(LAYOUT.workers),
        trackers=not_compared(RESOLVED["train"]["trackers"]),
        # Written while the training runs, for people: what trackers keep, and a line for each step.
        training=not_compared(lambda w: f"{CONFIG.run}-{w.method}-s{w.seed}"),
        tracking=not_compared(f"{LAYOUT.root}/tracking"),
        lines=not_compared(lambda w: f"{LAYOUT.root}/logs/train/{w.method}-s{w.seed}/step{w.step}.jsonl"),
    message:
        "training {wildcards.method}, seed {wildcards.seed}, up to step {wildcards.step}"
    script:
        "../workflow_scripts/stages/train_segment.py"
