"""The page of several runs."""

from collections.abc import Sequence

import polars as pl

from dphrl.pages.render import render
from dphrl.report.claims import difference
from dphrl.report.headline import Headline, metric_name
from dphrl.report.names import label
from dphrl.report.pooled import FinishedRun
from dphrl.report.views import claims_table, headline_table


def render_pooled(
    runs: Sequence[FinishedRun], differences: pl.DataFrame, compared: pl.DataFrame, claims: pl.DataFrame
) -> str:
    """One page of several runs: their headlines side by side, pooled differences, claims.

    Args:
        runs: of `read_runs`.
        differences, compared, claims: of `seed_differences`, `pooled` and `pooled_claims`.
    """
    names = [run.name for run in runs]
    headlines = {run.name: Headline(run.headline) for run in runs}
    trainings = sum(run.headline.filter(pl.col("step") > 0).select("method", "seed").n_unique() for run in runs)
    datasets = runs[0].datasets
    return render(
        "pooled.html.j2",
        title=" and ".join(names),
        lead=f"{len(runs)} runs with {trainings} trainings, evaluated on {', '.join(datasets)}.",
        headings=["Runs", "All trainings together", "Claims"],
        runs=_runs(runs),
        headlines=[headline_table(headlines, dataset) for dataset in datasets],
        differences={dataset: _compared(dataset, differences, compared, names) for dataset in datasets},
        claims_found=claims_table(claims),
    )


def _runs(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    prompts = [run.evaluations.select("dataset", "prompt_id").unique() for run in runs]
    rows = [
        (
            run.name,
            ", ".join(dict.fromkeys(label(name) for name in run.headline["method"])),
            ", ".join(map(str, run.headline.filter(pl.col("step") > 0)["seed"].unique().sort())),
            ", ".join(map(str, run.steps)),
            f"{own.height:,}",
            f"{own.join(prompts[0], on=own.columns, how='semi').height:,}",
        )
        for run, own in zip(runs, prompts, strict=True)
    ]
    heads = ["Run", "Policies", "Seeds", "Steps", "Prompts", f"of them in {runs[0].name}"]
    return pl.DataFrame(rows, schema=heads, orient="row")


def _compared(dataset: str, differences: pl.DataFrame, compared: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Pooled differences on one dataset, and the mean of each run."""
    here = differences.filter(dataset=dataset).group_by("metric", "method", "against", "run")
    means = {tuple(key): mean for *key, mean in here.agg(pl.col("difference").mean()).iter_rows()}
    rows = []
    for one in compared.filter(dataset=dataset).iter_rows(named=True):
        metric, pair = one["metric"], (one["metric"], one["method"], one["against"])
        value, low, high = (difference(metric, one[name]) for name in ("difference", "low", "high"))
        by_run = [difference(metric, means.get((*pair, name))) for name in names]
        chance = "-" if one["p_holm"] is None else f"{one['p_holm']:.3f}".replace("0.000", "< 0.001")
        methods = f"{label(one['method'])} - {label(one['against'])}"
        rows.append((metric_name(metric), methods, f"{value} [{low}, {high}]", *by_run, str(one["seeds"]), chance))
    heads = ["Metric", "Methods", "Difference [interval]", *(f"in {name}" for name in names), "Trainings", "p (Holm)"]
    return pl.DataFrame(rows, schema=heads, orient="row")
