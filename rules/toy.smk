# The base policy: the embedded default's, built from scratch, or the user's own.

if CONFIG.toy:

    rule build_world:
        """Databases, questions, supervised mix and tokenizer of the embedded default."""
        output:
            manifest=f"{RESULTS}/toy/manifest.json",
            digest=f"{RESULTS}/toy/manifest.json.sha256",
            # Rows are read from here; the manifest holds the digests of the other files.
            questions=expand(
                f"{RESULTS}/toy/questions/{{split}}.jsonl",
                split=type(CONFIG.toy.questions).model_fields,
            ),
            timings=timings("toy/world"),
        log:
            f"{RESULTS}/logs/toy/world.log",
        params:
            **stage_params("build_world.py", [], slices.world(CONFIG), CONFIG.toy.seed),
        message:
            "building the world of the embedded default"
        script:
            "../workflow_scripts/build_world.py"


if CONFIG.toy and CONFIG.policy.base is None:

    rule train_base:
        """The base model, from scratch."""
        input:
            world=rules.build_world.output.manifest,
        output:
            manifest=manifest("base"),
            digest=manifest("base") + ".sha256",
            # Named, so that a cache between workflows keeps them too.
            weights=f"{RESULTS}/policies/base/model.safetensors",
            architecture=f"{RESULTS}/policies/base/config.json",
            generation=f"{RESULTS}/policies/base/generation_config.json",
            tokenizer=f"{RESULTS}/policies/base/tokenizer.json",
            tokens=f"{RESULTS}/policies/base/tokenizer_config.json",
            timings=timings("policies/base"),
            timings_digest=timings("policies/base") + ".sha256",
        log:
            f"{RESULTS}/logs/policies/base.log",
        cache: SHARED
        threads: CONFIG.toy.threads
        params:
            **stage_params("train_base.py", [], slices.world(CONFIG), CONFIG.toy.seed),
        message:
            "training the base model from scratch"
        script:
            "../workflow_scripts/train_base.py"

elif CONFIG.has_model:

    localrules:
        import_base,

    rule import_base:
        """The user's base model, linked file by file."""
        input:
            files=sorted(
                str(path)
                for path in Path(CONFIG.policy.base).iterdir()
                if path.is_file()
            ),
        output:
            manifest=manifest("base"),
            digest=manifest("base") + ".sha256",
            timings=timings("policies/base"),
        log:
            f"{RESULTS}/logs/policies/base.log",
        params:
            **stage_params("import_base.py", [], slices.NOTHING),
        message:
            f"taking the base model from {CONFIG.policy.base}"
        script:
            "../workflow_scripts/import_base.py"
