# Checks within and across the artifacts of a run.


rule audit:
    """A table and a page of what was checked; a failed check stops the run with a message."""
    input:
        rules.tabulate.output.tables,
        rules.count_rows.output.table,
        rules.collect_training.output.training if CONFIG.methods else [],
        rules.find_overlap.output.overlap,
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
        **stage_params(["dphrl.audit"], ["audit"], slices.NOTHING),
    message:
        "auditing the artifacts"
    script:
        "../workflow_scripts/audit.py"
