# The base policy: made from scratch for the embedded default, or the user's model.

if CONFIG.toy:

    rule build_world:
        """Databases, questions, supervised mix and tokenizer of the embedded default."""
        output:
            **with_digests(manifest=path("world")),
            # Inputs of prompts; the manifest has the digests of the other files.
            questions=expand(
                "<results>/toy/questions/{split}.jsonl",
                split=type(CONFIG.toy.questions).model_fields,
            ),
            timings="<timings>/toy/world.parquet",
        log:
            "<logs>/toy/world.log",
        params:
            **stage_params("build_world.py", slice_of("world"), seed=CONFIG.toy.seed),
        message:
            "making the demo's databases and questions"
        script:
            "../workflow_scripts/build_world.py"


if CONFIG.toy and CONFIG.policy.base is None:

    rule train_base:
        """The base model, from scratch."""
        input:
            world=path("world"),
        output:
            **with_digests(
                manifest=path("base"), timings="<timings>/policies/base.parquet"
            ),
            # Declared, so that a cache between workflows keeps these files too.
            weights="<results>/policies/base/model.safetensors",
            architecture="<results>/policies/base/config.json",
            generation="<results>/policies/base/generation_config.json",
            tokenizer="<results>/policies/base/tokenizer.json",
            tokens="<results>/policies/base/tokenizer_config.json",
        log:
            "<logs>/policies/base.log",
        cache: SHARED
        threads: CONFIG.toy.threads
        params:
            **stage_params("train_base.py", slice_of("base"), seed=CONFIG.toy.seed),
        message:
            "training the base model from scratch"
        script:
            "../workflow_scripts/train_base.py"

elif CONFIG.has_model:

    rule import_base:
        """The user's base model, linked file by file."""
        input:
            files=sorted(
                str(path)
                for path in Path(CONFIG.policy.base).iterdir()
                if path.is_file()
            ),
        output:
            **with_digests(manifest=path("base")),
            timings="<timings>/policies/base.parquet",
        log:
            "<logs>/policies/base.log",
        localrule: True
        params:
            **stage_params("import_base.py", slice_of("base")),
        message:
            "taking the base model from {CONFIG.policy.base}"
        script:
            "../workflow_scripts/import_base.py"
