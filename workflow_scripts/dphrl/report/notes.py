"""Notes of a report: limits of its intervals and claims, trainings that ended early, samples without an answer."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from dphrl.evaluation.claims import VERDICTS
from dphrl.evaluation.interval import FEWEST_CLUSTERS
from dphrl.evaluation.names import BASE, BASE_ITSELF, numbered
from dphrl.report.methods import label
from dphrl.scoring.verdict_tables import unanswered_or_cut_off
from dphrl.text import percent


def limits(tables: Mapping[str, pl.DataFrame], dataset: str) -> Iterator[str]:
    """What intervals cover and what the run cannot say, the largest doubt first; none without a base to compare with.

    Args:
        tables: comparisons and claims.
    """
    rows = tables["comparisons"].filter(pl.col("method") != BASE_ITSELF, against=BASE, dataset=dataset, level="")
    ks = numbered(rows["metric"], "pass@")
    rows = rows.filter(metric=f"pass@{ks[-1]}") if ks else rows
    if rows.is_empty():
        return
    most, questions, clusters = rows.select(pl.max("seeds"), pl.first("questions"), pl.first("clusters")).row(0)
    over = f"over {questions:,} questions of {dataset}"
    if most > 1:
        yield f"Intervals are {over} and up to {most} trainings."
        yield "They are 95 %; base model and settings are fixed."
    else:
        yield "One training of each method: train five, with other seeds."
        yield f"Intervals are 95 %, {over} alone."
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        yield f"The questions are on {clusters} databases only."
    primary = tables["claims"].filter("primary")
    if primary.height:
        counts = ", ".join(f"{primary.filter(verdict=verdict).height} {verdict}" for verdict in VERDICTS)
        yield f"Of {primary.height} primary claims: {counts}."
    sizes = primary.filter(pl.col("metric").str.starts_with("pass@"))["detectable"].drop_nulls().to_list()
    if sizes:
        yield f"This run finds a primary difference of {percent(max(sizes))} points in 80 % of cases."


def ended_early(training: pl.DataFrame, headline: pl.DataFrame) -> Iterator[str]:
    """A sentence on each training that `train.stop` ended before its last evaluated step."""
    of_training = ["method", "seed"]
    planned = headline.group_by(of_training).agg(planned=pl.max("step"))
    ends = training.group_by(of_training).agg(pl.max("step")).join(planned, on=of_training).sort(of_training)
    for method, seed, step, last in ends.filter(pl.col("step") < pl.col("planned")).iter_rows():
        name = f"{label(method)}, seed {seed}"
        yield f"train.stop ended {name}, after step {step} of {last}. The policies of later steps are this one."


def unanswered(
    datasets: Sequence[str], policies: Mapping[str, str], rollouts: Sequence[str], verdicts: Sequence[str]
) -> Iterator[str]:
    """A sentence for each policy and dataset with at least a tenth of such samples.

    Args:
        policies: by method, the folder of the policy in the run.
        rollouts, verdicts: all shards of all of them.
    """
    for dataset in datasets:
        for method, policy in policies.items():
            texts, judged = (
                pl.scan_parquet([path for path in paths if Path(path).match(f"{policy}/{dataset}.*/*")])
                for paths in (rollouts, verdicts)
            )
            if note := unanswered_or_cut_off(texts, judged, None):
                yield f"{label(method)} on {dataset}: {note}."
