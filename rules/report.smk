# The report of the run, and the model cards of its policies.
from dphrl.report.further import FURTHER

SAMPLED = report_plan.sampled_datasets(LAYOUT)


rule report:
    """The report page, one self-contained file."""
    input:
        headline=path("table", table="headline"),
        claims=path("table", table="claims"),
        comparisons=path("table", table="comparisons"),
        tables=rules.lay_out.output.tables,
        further=expand(path("table"), table=FURTHER),
        training=(
            [
                rules.collect_training.output.use,
                rules.collect_training.output.probes,
                rules.collect_training.output.cost,
            ]
            if CONFIG.methods
            else []
        ),
        prompts=expand(path("prompts"), dataset=SAMPLED),
        gold=expand(path("gold"), dataset=SAMPLED),
        rollouts=report_plan.sampled_shards(LAYOUT, "rollouts"),
        verdicts=report_plan.sampled_shards(LAYOUT, "verdicts"),
        figures=expand(rules.draw.output.spec, figure=FIGURES),
        svgs=expand(rules.draw.output.svg, figure=FIGURES),
        datasets=path("datasets"),
        partition=path("partition"),
        timings=report_plan.timings(LAYOUT),
    output:
        **with_digests(page="<results>/report/index.html"),
        timings="<timings>/report.parquet",
    log:
        "<logs>/report.log",
    localrule: True
    params:
        **stage_params("write_report.py", slices.report(CONFIG)),
        figures=FIGURES,
        tables=PAPER_TABLES,
        further=FURTHER,
        facts=report_plan.facts(LAYOUT),
        answered=report_plan.answered_dataset(LAYOUT),
        sampled=SAMPLED,
        datasets=CONFIG.evaluate.datasets,
        policies=report_plan.sampled_policies(LAYOUT),
    message:
        "writing the report"
    script:
        "../workflow_scripts/write_report.py"


if CONFIG.methods:

    rule write_cards:
        """The model card of every trained policy that is evaluated, in its folder; no job reads it."""
        input:
            manifests=[LAYOUT.manifest(policy) for policy in LAYOUT.trained()],
            headline=path("table", table="headline"),
            datasets=path("datasets"),
            partition=path("partition"),
        output:
            **with_digests(cards=[LAYOUT.card(policy) for policy in LAYOUT.trained()]),
            timings="<timings>/cards.parquet",
        log:
            "<logs>/cards.log",
        localrule: True
        params:
            **stage_params("write_cards.py", slices.cards(CONFIG)),
            names=[str(policy) for policy in LAYOUT.trained()],
            base=Path(CONFIG.policy.base).name if CONFIG.policy.base else None,
            commands=[
                f"snakemake --cores 2 {LAYOUT.manifest(policy)} --configfile CONFIG"
                for policy in LAYOUT.trained()
            ],
        message:
            "writing model cards"
        script:
            "../workflow_scripts/write_cards.py"
