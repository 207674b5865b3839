# The report of the run, and the model cards of its policies.
from dphrl.report.page_tables import FURTHER


report: "run.rst"  # the first page of `snakemake --report`


# The page shows samples of these policies (by method, the last one of the first seed) on these sets.
POLICIES = contents.sampled_policies(LAYOUT)
SAMPLED = contents.sampled_datasets(LAYOUT)
SHOWN = collect("{policy}/{dataset}.{sample}", policy=POLICIES.values(), dataset=SAMPLED, sample=EVALUATIONS)
TIMED = ["policies/base", *collect("draws/{draw}/reference", draw=DRAWS)] if CONFIG.has_model else []


rule report:
    """The report page, one self-contained file."""
    input:
        headline="<results>/tables/headline.parquet",
        claims="<results>/tables/claims.parquet",
        comparisons="<results>/tables/comparisons.parquet",
        datasets="<results>/tables/datasets.parquet",
        partitions=collect("<results>/draws/{draw}/partition/final.parquet", draw=DRAWS),
        tables=collect("<results>/tables/paper/{name}.parquet", name=PAPER_TABLES),
        further=collect("<results>/tables/{table}.parquet", table=FURTHER),
        training_use=branch(CONFIG.methods, then="<results>/tables/training_use.parquet"),
        training_probes=branch(CONFIG.methods, then="<results>/tables/training_probes.parquet"),
        training_cost=branch(CONFIG.methods, then="<timings>/training_cost.parquet"),
        figures=collect("<results>/figures/{figure}.json", figure=FIGURES),
        prompts=collect("<results>/prompts/{dataset}.parquet", dataset=SAMPLED),
        gold=collect("<results>/gold/{dataset}.parquet", dataset=SAMPLED),
        rollouts=collect("<results>/rollouts/{sample}", sample=SHOWN),
        verdicts=collect("<results>/verdicts/{sample}", sample=SHOWN),
        # Seconds of the jobs whose cost the page shows.
        timings=[
            *collect("<timings>/draws/{draw}/{kind}/{sample}", draw=DRAWS, kind=BOTH, sample=DRAWN),
            *collect("<timings>/{kind}/{sample}", kind=BOTH, sample=SAMPLES),
            *collect("<timings>/{job}.parquet", job=[*TIMED, *(f"train/{end}" for end in SEGMENTS)]),
        ],
    output:
        page=report("<results>/report/index.html", caption="page.rst", category="Page"),
        timings="<timings>/report.parquet",
    log:
        "<logs>/report.log",
    localrule: True
    params:
        code=code("write_report.py"),
        report=slices.report(CONFIG)["report"],
        figures=FIGURES,
        tables=PAPER_TABLES,
        further=FURTHER,
        facts=contents.facts(LAYOUT),
        answered=contents.answered_dataset(LAYOUT),
        sampled=SAMPLED,
        datasets=SETS,
        policies=POLICIES,
    message:
        "writing the report"
    script:
        "../workflow_scripts/stages/write_report.py"


if CONFIG.methods:

    rule write_cards:
        """The model card of every trained policy that is evaluated; only the audit reads it."""
        input:
            manifests=collect("<results>/policies/{policy}.json", policy=TRAINED),
            headline="<results>/tables/headline.parquet",
            datasets="<results>/tables/datasets.parquet",
            partitions=collect("<results>/draws/{draw}/partition/final.parquet", draw=DRAWS),
        output:
            cards=collect("<results>/cards/{policy}.md", policy=TRAINED),
            timings="<timings>/cards.parquet",
        log:
            "<logs>/cards.log",
        localrule: True
        params:
            code=code("write_cards.py"),
            cards=slices.cards(CONFIG)["cards"],
            names=TRAINED,
            draws=DRAWS,
            used=[LAYOUT.draw(policy.method, policy.seed) for policy in LAYOUT.trained()],  # the draw of each
            base=Path(CONFIG.policy.base).name if CONFIG.policy.base else None,
        message:
            "writing model cards"
        script:
            "../workflow_scripts/stages/write_cards.py"
