# Policies that no RL of the run makes: checkpoints, and the base, which is the user's or the embedded world's.

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
        message:
            "making the demo's databases and questions"
        script:
            "../workflow_scripts/stages/build_world.py"


SUPERVISED = CONFIG.policy.supervised
STARTS_FROM = {}
if SUPERVISED:
    STARTS_FROM = dict(start="<results>/policies/start.json", source=LAYOUT.supervised_source())
    STARTS_FROM |= dict(weights=ancient("<results>/policies/start"))
elif CONFIG.toy and CONFIG.policy.base is None:
    STARTS_FROM = dict(world="<results>/toy.json", corpus="<results>/toy/corpus.jsonl")
    made = ["<results>/toy/databases", "<results>/toy/tokenizer", *rules.build_world.output.questions]
    STARTS_FROM |= dict(files=ancient(made))

if STARTS_FROM:

    rule train_base:
        """The base model: the user's after a supervised start, or the world's, trained from scratch on its corpus."""
        input:
            **STARTS_FROM,
        output:
            manifest="<results>/policies/base.json",
            weights=directory("<results>/policies/base"),
            table="<results>/train/base/supervised.parquet",
            timings="<timings>/policies/base.parquet",
        log:
            "<logs>/policies/base.log",
        cache: SHARED
        threads: (SUPERVISED or CONFIG.toy).threads
        resources:
            mem_mb=lambda wildcards, attempt: attempt * LIMITS.memory_mb("train_base"),
            runtime=lambda wildcards, attempt: attempt * LIMITS.minutes("train_base"),
            gpu=LAYOUT.gpus(1) if SUPERVISED else 0,
        params:
            **{name: block(slices.base, name) for name in slices.base(CONFIG)},
            code=code("train_base.py", schemas=["supervised"]),
            seed=(SUPERVISED or CONFIG.toy).seed,
        message:
            "training the base model"
        script:
            "../workflow_scripts/stages/train_base.py"


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
    message:
        "fetching {wildcards.hub} from the hub"
    script:
        "../workflow_scripts/stages/fetch.py"


rule import_model:
    """A model of the user, base or checkpoint: links to its files. A checkpoint must have the base's tokenizer."""
    input:
        files=LAYOUT.files_of_model,
        base=branch(evaluate("{model} not in ('base', 'start')"), then=BASE_POLICY),
        base_weights=ancient(branch(evaluate("{model} not in ('base', 'start')"), then=BASE_WEIGHTS)),
    output:
        manifest="<results>/policies/{model}.json",
        weights=directory("<results>/policies/{model}"),
        timings="<timings>/policies/{model}.parquet",
    log:
        "<logs>/policies/{model}.log",
    localrule: True
    params:
        code=code("import_model.py"),
    message:
        "taking the model {wildcards.model}"
    script:
        "../workflow_scripts/stages/import_model.py"
