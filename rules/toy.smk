# Policies that no training of the run makes: checkpoints, and the base, which is the user's or the embedded world's.

if CONFIG.toy:

    rule build_world:
        """The embedded world: databases, questions, corpus and tokenizer. The manifest lists all files."""
        output:
            manifest="<results>/toy.json",
            databases=directory("<results>/toy/databases"),
            questions=collect("<results>/toy/questions/{split}.jsonl", split=RESOLVED["toy"]["questions"]),
            corpus="<results>/toy/corpus.jsonl",
            tokenizer=directory("<results>/toy/tokenizer"),
            timings="<timings>/toy/world.parquet",
        log:
            "<logs>/toy/world.log",
        resources:
            mem_mb=lambda wildcards, attempt: attempt * 2000,
            runtime=lambda wildcards, attempt: attempt * 30,
        params:
            code=code("build_world.py"),
            toy=block(slices.world, "toy"),
            seed=CONFIG.toy.seed,
        script:
            "../workflow_scripts/build_world.py"


if CONFIG.toy and CONFIG.policy.base is None:

    rule train_base:
        """The base model, trained from scratch on the corpus of the embedded world."""
        input:
            world="<results>/toy.json",
            corpus="<results>/toy/corpus.jsonl",
            files=ancient(["<results>/toy/databases", "<results>/toy/tokenizer", *rules.build_world.output.questions]),
        output:
            manifest="<results>/policies/base.json",
            weights=directory("<results>/policies/base"),
            timings="<timings>/policies/base.parquet",
        log:
            "<logs>/policies/base.log",
        cache: SHARED
        threads: CONFIG.toy.threads
        resources:
            mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("train_base"),
            runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("train_base"),
        params:
            code=code("train_base.py"),
            toy=block(slices.base, "toy"),
            seed=CONFIG.toy.seed,
        script:
            "../workflow_scripts/train_base.py"


rule fetch:
    """The files of a name of the hub in the cache of huggingface_hub, and the list of them."""
    output:
        listing="<results>/hub/{hub}.json",
        timings="<timings>/hub/{hub}.parquet",
    log:
        "<logs>/hub/{hub}.log",
    localrule: True  # nodes of a cluster may have no network
    params:
        code=code("fetch.py"),
        name=lambda wildcards: vars(LAYOUT.hub_names()[wildcards.hub]),
    script:
        "../workflow_scripts/fetch.py"


rule import_model:
    """A model of the user, base or checkpoint: links to its files. A checkpoint must have the base's tokenizer."""
    input:
        files=LAYOUT.files_of_model,
        base=branch(evaluate("{model} != 'base'"), then=BASE_POLICY),
        base_weights=ancient(branch(evaluate("{model} != 'base'"), then=BASE_WEIGHTS)),
    output:
        manifest="<results>/policies/{model}.json",
        weights=directory("<results>/policies/{model}"),
        timings="<timings>/policies/{model}.parquet",
    log:
        "<logs>/policies/{model}.log",
    localrule: True
    params:
        code=code("import_model.py"),
    script:
        "../workflow_scripts/import_model.py"
