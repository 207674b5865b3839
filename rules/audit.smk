# Checks within and across the artifacts of a run.
from dphrl.config.slices import canonical


def noted():
    """What the audit of a run notes for later ones: the scripts and schemas behind the code digest in the footers of
    each stage, and the table that each figure draws.
    """
    params = {made.name: made.params for made in workflow.rules}
    # The code of a figure depends on its name, and figures have no footer.
    stages = {
        name: {"sources": given.sources, "schemas": given.schemas}
        for name, given in params.items()
        if "sources" in given.keys() and not callable(given.sources)
    }
    return {
        "stages": stages,
        "figures": {name: drawings.table(name) for name in FIGURES},
    }


def audited():
    """What the audit reads beside the tables: a file of it that is missing is made again, though nothing else needs it."""
    train = CONFIG.train_dataset
    plans = [("base", train, "presample"), ("base", train, "refine")]
    plans += [
        (p, d, "evaluate") for p, d in product(policies(), CONFIG.evaluate.datasets)
    ]
    files = [
        file
        for plan in plans
        for made in (rollout_shards, verdict_shards)
        for file in made(*plan)
    ]
    files += expand(
        f"{RESULTS}/{{kind}}/{{dataset}}.parquet",
        kind=["prompts", "gold"],
        dataset=CONFIG.datasets,
    )
    for method, seed, step in segments():
        name = f"{method}-s{seed}/step{step}"
        files += [
            manifest(name),
            f"{RESULTS}/train/{name}/state.json",
            f"{RESULTS}/train/{name}/metrics.parquet",
        ]
    files += with_model([manifest("base")])
    files += rules.build_world.output[:1] if CONFIG.toy else []
    return [*files, *rules.find_candidates.output[:1], *rules.refine.output[:1]]


rule audit:
    """A table and a page of what was checked; a failed check stops the run with a message."""
    input:
        audited(),
        rules.tabulate.output,
        rules.lay_out.output,
        rules.count_rows.output,
        rules.collect_training.output if CONFIG.methods else [],
        rules.find_overlap.output,
        with_model(rules.tensorise.output),
        rules.report.input.figures,
        rules.report.input.svgs,
        evaluations(),
        expand(
            f"{RESULTS}/prompts/{{dataset}}.rejected.parquet", dataset=CONFIG.datasets
        ),
    output:
        table=f"{RESULTS}/audit/audit.parquet",
        digest=f"{RESULTS}/audit/audit.parquet.sha256",
        page=f"{RESULTS}/audit/index.html",
        page_digest=f"{RESULTS}/audit/index.html.sha256",
        timings=timings("audit"),
    log:
        f"{RESULTS}/logs/audit.log",
    params:
        **stage_params("audit.py", ["audit"], canonical(noted())),
    message:
        "auditing the artifacts"
    script:
        "../workflow_scripts/audit.py"
