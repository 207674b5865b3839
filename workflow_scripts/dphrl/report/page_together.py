"""The page of several runs."""

from collections.abc import Sequence
from html import escape

import polars as pl

from dphrl.report.claims import difference
from dphrl.report.names import label
from dphrl.report.page_claims import claims_html
from dphrl.report.page_headline import READING, headline_html
from dphrl.report.page_parts import card, document, paragraph
from dphrl.report.pooled import FinishedRun
from dphrl.report.text import Headline, html, metric_name

_POOLED = (
    "Differences of each training on its prompts, then their mean over all trainings of all runs with its t interval."
    " Differences are in percentage points, of counts in their own unit. Trainings of one run share its base, which the"
    " interval does not know: where the means of the runs lie apart, more runs are needed, not more seeds."
)
_FOOTER = (
    "<p>This page asks nothing of a network. The figures beside it: headline.csv, differences.csv (each training),"
    " comparisons.parquet, claims.parquet and claims.md.</p>"
)


def render_together(
    runs: Sequence[FinishedRun], differences: pl.DataFrame, compared: pl.DataFrame, claims: pl.DataFrame
) -> str:
    """One page of several runs: each one's headline side by side, pooled differences, claims.

    Args:
        runs: of `read_runs`.
        differences, compared, claims: of `seed_differences`, `pooled` and `pooled_claims`.
    """
    names = [run.name for run in runs]
    headlines = {run.name: Headline(run.headline) for run in runs}
    trainings = sum(run.headline.filter(pl.col("step") > 0).select("method", "seed").n_unique() for run in runs)
    datasets = runs[0].datasets
    parts = {
        "Runs": f"{_runs(runs)}{paragraph(READING)}" + "".join(headline_html(headlines, name) for name in datasets),
        "All trainings together": paragraph(_POOLED)
        + "".join(_compared(name, differences, compared, names) for name in datasets),
        "Claims": claims_html(claims),
    }
    lead = f"{len(runs)} runs with {trainings} trainings, evaluated on {', '.join(datasets)}."
    return document(" and ".join(names), lead, parts, _FOOTER, [])


def _runs(runs: Sequence[FinishedRun]) -> str:
    rows = [
        (
            run.name,
            ", ".join(dict.fromkeys(label(name) for name in run.headline["method"])),
            ", ".join(map(str, run.headline.filter(pl.col("step") > 0)["seed"].unique().sort())),
            ", ".join(map(str, run.steps)),
            f"{run.evaluations.select('dataset', 'prompt_id').n_unique():,}",
            f"{_prompts(run).join(_prompts(runs[0]), on=['dataset', 'prompt_id'], how='semi').height:,}",
        )
        for run in runs
    ]
    heads = ["Run", "Policies", "Seeds", "Steps", "Prompts", f"of them in {runs[0].name}"]
    return card("The runs", html(pl.DataFrame(rows, schema=heads, orient="row"), "What was run"))


def _prompts(run: FinishedRun) -> pl.DataFrame:
    return run.evaluations.select("dataset", "prompt_id").unique()


def _compared(dataset: str, differences: pl.DataFrame, compared: pl.DataFrame, names: Sequence[str]) -> str:
    here = differences.filter(dataset=dataset).group_by("metric", "method", "against", "run")
    means = {tuple(key): mean for *key, mean in here.agg(pl.col("difference").mean()).iter_rows()}
    rows = []
    for one in compared.filter(dataset=dataset).iter_rows(named=True):
        metric, pair = one["metric"], (one["metric"], one["method"], one["against"])
        value, low, high = (difference(metric, one[name]) for name in ("difference", "low", "high"))
        by_run = [difference(metric, means.get((*pair, name))) for name in names]
        chance = "-" if one["p_holm"] is None else f"{one['p_holm']:.3f}".replace("0.000", "< 0.001")
        words = f"{label(one['method'])} - {label(one['against'])}"
        rows.append((metric_name(metric), words, f"{value} [{low}, {high}]", *by_run, str(one["seeds"]), chance))
    heads = ["Metric", "Methods", "Difference [interval]", *(f"in {name}" for name in names), "Trainings", "p (Holm)"]
    table = card(f"Differences on {dataset}", html(pl.DataFrame(rows, schema=heads, orient="row"), dataset))
    return f"<details open><summary>{escape(dataset)}: {len(rows)} comparisons</summary>\n{table}</details>\n"
