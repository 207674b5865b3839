# The report of the run, and the model cards of its policies.
from dphrl.report.page_tables import READ


report: "run.rst"  # the first page of `snakemake --report`


# The pages of samples show these policies (by method, the last one of the first seed) on these sets.
POLICIES = contents.sampled_policies(LAYOUT)
SAMPLED = contents.sampled_datasets(LAYOUT)
SHOWN = collect("{policy}/{dataset}.{sample}", policy=POLICIES.values(), dataset=SAMPLED, sample=EVALUATIONS)
# The timings of the jobs that take the time of a run, by the stage that a reader knows.
STAGES = dict(
    base_model=["<timings>/policies/base.parquet"] if CONFIG.has_model else [],
    presamples=collect("<timings>/draws/{draw}/rollouts/{sample}", draw=DRAWS, sample=DRAWN),
    scores_of_presamples=collect("<timings>/draws/{draw}/verdicts/{sample}", draw=DRAWS, sample=DRAWN),
    stored_responses=collect("<timings>/draws/{draw}/{stored}.parquet", draw=DRAWS, stored=STORED_SETS),
    trainings=collect("<timings>/train/{segment}.parquet", segment=SEGMENTS),
    samples=collect("<timings>/rollouts/{sample}", sample=SAMPLES),
    scores_of_samples=collect("<timings>/verdicts/{sample}", sample=SAMPLES),
)


rule report:
    """The report page, one self-contained file."""
    input:
        **STAGES,
        tables=collect("<results>/tables/{table}.parquet", table=READ),
        partitions=collect("<results>/draws/{draw}/partition/final.parquet", draw=DRAWS),
        training=branch(CONFIG.methods, then="<results>/tables/training.parquet"),
        figures=collect("<results>/figures/{figure}.json", figure=FIGURES),
        rollouts=collect("<results>/rollouts/{sample}", sample=SHOWN),
        verdicts=collect("<results>/verdicts/{sample}", sample=SHOWN),
    output:
        page=report("<results>/report/index.html", caption="page.rst", category="Page"),
        timings="<timings>/report.parquet",
    log:
        "<logs>/report.log",
    localrule: True
    params:
        code=code("write_report.py"),
        published=contents.published(LAYOUT),
        report=slices.report(CONFIG)["report"],
        figures=FIGURES,
        tables=READ,
        facts=contents.facts(LAYOUT),
        answered=contents.answered_dataset(LAYOUT),
        stages=list(STAGES),
        labels=TRAININGS,
        sampled=SAMPLED,
        datasets=SETS,
        policies=POLICIES,
    message:
        "writing the report"
    script:
        "../workflow_scripts/stages/write_report.py"


rule write_samples:
    """The page with the questions and responses of one evaluation set."""
    input:
        prompts="<results>/prompts/{dataset}.parquet",
        gold="<results>/gold/{dataset}.parquet",
        # The policy varies fastest: the script takes these lists apart.
        rollouts=collect(
            "<results>/rollouts/{policy}/{{dataset}}.{sample}", sample=EVALUATIONS, policy=POLICIES.values()
        ),
        verdicts=collect(
            "<results>/verdicts/{policy}/{{dataset}}.{sample}", sample=EVALUATIONS, policy=POLICIES.values()
        ),
    output:
        page="<results>/report/samples/{dataset}.html",
        timings="<timings>/samples/{dataset}.parquet",
    log:
        "<logs>/samples/{dataset}.log",
    localrule: True
    params:
        code=code("write_samples.py"),
        samples=slices.samples(CONFIG)["samples"],
        run=CONFIG.run,
        policies=list(POLICIES),
    message:
        "writing the page of the samples of {wildcards.dataset}"
    script:
        "../workflow_scripts/stages/write_samples.py"


if CONFIG.methods:

    rule write_cards:
        """The model card of every trained policy that is evaluated; only the audit reads it."""
        input:
            manifests=collect("<results>/policies/{policy}.json", policy=TRAINED),
            headline="<results>/tables/headline.parquet",
            training="<results>/tables/training.parquet",
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
