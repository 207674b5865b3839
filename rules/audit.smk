# Checks within and across the artifacts of a run. `figures` and `FIGURES` are those of figures.smk.
from dphrl.audit.staleness import recorded_code

STAGES = {
    made.name.removeprefix(PREFIX): made.params for made in workflow.modifier.rules
}
del STAGES["draw"]


rule audit:
    """A table and a page of all checks; a failed check stops the run with a message."""
    input:
        # All artifacts, so that a missing one is made again even if no other rule needs it.
        LAYOUT.audit_inputs(),
        rules.tabulate.output,
        rules.lay_out.output,
        rules.count_rows.output,
        rules.collect_training.output if CONFIG.methods else [],
        rules.write_cards.output if CONFIG.methods else [],
        LAYOUT.if_has_model(rules.tensorise.output),
        rules.report.input.figures,
        rules.report.input.svgs,
    output:
        **with_digests(table=path("audit"), page="<results>/audit/index.html"),
        timings="<timings>/audit.parquet",
    log:
        "<logs>/audit.log",
    # It recomputes log-probs of the base policy.
    threads: CONFIG.hardware.ranks
    params:
        **stage_params(
            "audit.py",
            recorded_code(STAGES, dict(zip(FIGURES, map(figures.table, FIGURES)))),
            "audit",
        ),
    message:
        "auditing the artifacts"
    script:
        "../workflow_scripts/audit.py"
