# The base policy: the user's model, or one that is made from scratch for the embedded world.

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

elif CONFIG.has_model:

    rule import_base:
        """The user's base model: a folder of links to its files, and their manifest."""
        input:
            files=sorted(str(file) for file in Path(CONFIG.policy.base).iterdir() if file.is_file()),
        output:
            manifest="<results>/policies/base.json",
            weights=directory("<results>/policies/base"),
            timings="<timings>/policies/base.parquet",
        log:
            "<logs>/policies/base.log",
        localrule: True
        params:
            code=code("import_base.py"),
        script:
            "../workflow_scripts/import_base.py"
