# Checks within and across the artifacts of a run. `figures` and `FIGURES` are those of figures.smk.


def recorded_code():
    """The scripts and schemas behind the code digest of each stage, and the table of each figure, for later audits."""
    params = {made.name: made.params for made in workflow.rules if made.name != "draw"}
    return {
        "stages": {
            name: {"sources": given.sources, "schemas": given.schemas}
            for name, given in params.items()
            if "code" in given.keys()
        },
        "figures": {name: figures.table(name) for name in FIGURES},
    }


rule audit:
    """A table and a page of all checks; a failed check stops the run with a message."""
    input:
        # All artifacts, so that a missing one is made again even if no other rule needs it.
        LAYOUT.audit_inputs(),
        rules.tabulate.output,
        rules.lay_out.output,
        rules.count_rows.output,
        rules.collect_training.output if CONFIG.methods else [],
        LAYOUT.if_has_model(rules.tensorise.output),
        rules.report.input.figures,
        rules.report.input.svgs,
    output:
        **with_digests(table=path("audit"), page="<results>/audit/index.html"),
        timings="<timings>/audit.parquet",
    log:
        "<logs>/audit.log",
    params:
        **stage_params("audit.py", slices.canonical(recorded_code()), "audit"),
    message:
        "auditing the artifacts"
    script:
        "../workflow_scripts/audit.py"
