# The audit of the files of a run, and the list of them.
from itertools import chain

# What a finished run keeps of its trainings: evaluated policies, and the newest state or all (`train.keep_state`).
STATES = list(map(str, LAYOUT.kept_states()))
OWN_DATABASES = [name for name in CONFIG.datasets if LAYOUT.has_own_databases({"dataset": name})]
STAGE_1 = ["partition/candidates.parquet", "partition/final.parquet", *STORED]
# Jobs whose timings neither the report reads nor an output below has.
JOBS = [
    *(f"databases/{name}" for name in OWN_DATABASES),
    *(f"hub/{name}" for name in LAYOUT.hub_names()),
    *(f"policies/{name}" for name in LAYOUT.models()),
    *(f"{folder}/{name}" for folder in ["prompts", "gold"] for name in CONFIG.datasets),
    *(["gold/overlap"] if CONFIG.train_dataset else []),
    *(f"draws/{draw}/partition/{name}" for draw in DRAWS for name in ["candidates", "final"]),
    *(f"evaluation/{policy}/{name}" for policy in ASKED for name in SETS),
    *(f"figures/{figure}" for figure in FIGURES),
    *(f"samples/{dataset}" for dataset in SAMPLED),
]


rule audit:
    """The audit of all files, and the sha256 of each. A fault stops the run with a message."""
    input:
        # Every file of the run. SHA256SUMS lists them, so a job that is repeated must repeat the audit.
        databases=collect("<results>/databases/{dataset}.parquet", dataset=OWN_DATABASES),
        hub=collect("<results>/hub/{name}.json", name=LAYOUT.hub_names()),
        world=rules.build_world.output if CONFIG.toy else [],
        curve=rules.train_base.output.table if STARTS_FROM else [],
        prompts=rules.count_rows.input,
        draws=collect("<results>/draws/{draw}/{kind}/{sample}", draw=DRAWS, kind=BOTH, sample=DRAWN),
        stage_1=collect("<results>/draws/{draw}/{file}", draw=DRAWS, file=STAGE_1),
        policies=collect("<results>/policies/{policy}.json", policy=MODELS),
        weights=ancient(collect("<results>/policies/{policy}", policy=MODELS)),
        states=collect("<results>/states/{end}.json", end=STATES),
        optimizers=ancient(collect("<results>/states/{end}", end=STATES)),
        segments=collect("<results>/train/{segment}/{name}.parquet", segment=SEGMENTS, name=["metrics", "probes"]),
        samples=collect("<results>/{kind}/{sample}", kind=BOTH, sample=SAMPLES),
        evaluations=rules.make_tables.input.evaluations,
        counts=rules.count_rows.output,
        tables=rules.make_tables.output,
        training=rules.collect_training.output if CONFIG.methods else [],
        figures=collect("<results>/figures/{figure}.{ending}", figure=FIGURES, ending=["json", "svg"]),
        cards=rules.write_cards.output if CONFIG.methods else [],
        page=rules.report.output,
        samples_shown=collect("<results>/report/samples/{dataset}.html", dataset=SAMPLED),
        timings=[*chain(*STAGES.values()), *collect("<timings>/{job}.parquet", job=JOBS)],
    output:
        sums="<results>/SHA256SUMS",
        timings="<timings>/audit.parquet",
    log:
        "<logs>/audit.log",
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        code=code("audit.py"),
    message:
        "auditing the artifacts"
    script:
        "../workflow_scripts/stages/audit.py"
