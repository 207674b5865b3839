"""The end of a run in the terminal: main results, the audit, the report."""

from collections.abc import Collection
from pathlib import Path

import polars as pl
from tabulate import tabulate

from dphrl.evaluation.methods import in_order, label
from dphrl.report.headline import Headline, last_steps, main_metrics, metric_name, value_text
from dphrl.store.layout import Layout
from dphrl.store.manifest import SUMS
from dphrl.store.parquet import read_table
from dphrl.text import visible


def ending(layout: Layout, current: Collection[str]) -> str:
    """The text at the end of a run whose files `current` are up to date; empty without a report among them."""
    headline = Path(layout.path("headline"))
    page, sums = Path(layout.root, "report/index.html"), Path(layout.root, SUMS)
    if str(page) not in current or not (page.exists() and headline.exists()):
        return ""
    lines = [results(read_table(headline, "headline"), layout.config.evaluate.datasets)]
    if str(sums) in current and sums.exists():
        lines.append(f"The audit: all files are as they were written, {sums.resolve()}")
    return visible("\n".join(["", *lines, f"The report, with intervals: {page.resolve()}"]))


def results(headline: pl.DataFrame, datasets: tuple[str, ...]) -> str:
    """A row per method after its last step, means over seeds: pass@k at the largest k, and diversity, of each set."""
    means = last_steps(headline).group_by("method", "dataset", "metric").agg(pl.col("value").mean())
    cells = {row[:3]: row[3] for row in means.iter_rows()}
    metrics = Headline(headline, datasets).metrics
    columns = [(dataset, metric) for dataset in datasets for metric in main_metrics(metrics[dataset])]
    head = ["", *(f"{dataset}\n{metric_name(metric)}" for dataset, metric in columns)]
    rows = [
        [label(method), *(_cell(metric, cells.get((method, dataset, metric))) for dataset, metric in columns)]
        for method in in_order(means["method"])
    ]
    return tabulate(rows, head, disable_numparse=True, stralign="right", colalign=["left"] + ["right"] * len(columns))


def _cell(metric: str, value: float | None) -> str:
    return "-" if value is None else value_text(metric, value)
