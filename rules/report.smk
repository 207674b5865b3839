# The page that the reader opens.


def all_timings():
    """The timings of every stage that the page tells the cost of."""
    plans = [("base", CONFIG.train_dataset, plan) for plan in ("presample", "refine")]
    plans += [
        (*pair, "evaluate") for pair in product(policies(), CONFIG.evaluate.datasets)
    ]
    drawn = [
        path
        for kind in ("rollouts", "verdicts")
        for plan in plans
        for path in shards(kind, *plan)
    ]
    trained = [
        rules.train_segment.output.timings.format(method=m, seed=s, step=n)
        for m, s, n in segments()
    ]
    return [
        *with_model([timings("policies/base"), rules.tensorise.output.timings]),
        *(path.replace(f"{RESULTS}/", f"{RESULTS}/timings/", 1) for path in drawn),
        *trained,
    ]


SAMPLED = CONFIG.evaluate.datasets if CONFIG.report.samples.prompts else []


def sampled_policies():
    """The policies whose samples the page shows, by method: the last step of its first seed."""
    first = CONFIG.train.seeds[0]
    return {
        method: policy
        for policy, (method, seed, _) in policies().items()
        if method not in CONFIG.methods or seed == first
    }


def sampled(kind):
    """The shards of their rollouts or verdicts."""
    pairs = product(sampled_policies().values(), SAMPLED)
    return [path for pair in pairs for path in shards(kind, *pair, "evaluate")]


def facts():
    """What was run, for the reader."""
    base = Path(CONFIG.policy.base).name if CONFIG.policy.base else "made for this run"
    told = {
        "Run": CONFIG.run,
        "Base policy": base if CONFIG.has_model else "recorded answers",
        "Evaluated on": ", ".join(CONFIG.evaluate.datasets),
    }
    seeds = ", ".join(map(str, CONFIG.train.seeds))
    trained = {"Trained on": CONFIG.train_dataset, "Training seeds": seeds}
    return told | trained if CONFIG.methods else told


rule report:
    """The page that the reader opens."""
    input:
        headline=f"{RESULTS}/tables/headline.parquet",
        claims=f"{RESULTS}/tables/claims.parquet",
        tables=rules.lay_out.output.tables,
        cost=rules.collect_training.output.cost if CONFIG.methods else [],
        prompts=expand(rules.prepare_prompts.output.prompts, dataset=SAMPLED),
        gold=expand(rules.audit_gold.output.gold, dataset=SAMPLED),
        rollouts=sampled("rollouts"),
        verdicts=sampled("verdicts"),
        figures=expand(rules.draw.output.spec, figure=FIGURES),
        svgs=expand(rules.draw.output.svg, figure=FIGURES),
        datasets=rules.count_rows.output.table,
        partition=rules.refine.output.partition,
        timings=all_timings(),
    output:
        page=f"{RESULTS}/report/index.html",
        digest=f"{RESULTS}/report/index.html.sha256",
        timings=timings("report"),
    log:
        f"{RESULTS}/logs/report.log",
    params:
        **stage_params(
            "write_report.py",
            [],
            slices.report(CONFIG),
        ),
        figures=FIGURES,
        tables=PAPER_TABLES,
        facts=facts(),
        sampled=list(SAMPLED),
        policies=sampled_policies(),
    message:
        "writing the report"
    script:
        "../workflow_scripts/write_report.py"
