"""What the terminal shows at the end of a run, in about ten lines: the main results, the audit, the report."""

from pathlib import Path

import polars as pl
from tabulate import tabulate

from dphrl.artifacts.tables import read_table
from dphrl.layout.run import Layout
from dphrl.pages.visible import visible
from dphrl.report.headline import metric_name
from dphrl.report.names import in_order, label, last_steps

_STYLES = "distinct_styles"


def ending(layout: Layout) -> str:
    """The text at the end of a run; empty without a report."""
    headline, audit = (Path(layout.path(kind, table="headline")) for kind in ("table", "audit"))
    page = Path(layout.root, "report/index.html")
    if not (page.exists() and headline.exists()):
        return ""
    lines = [results(read_table(headline, "headline"), layout.config.evaluate.datasets)]
    if audit.exists():
        passed = read_table(audit, "audit")["passed"].sum()
        lines.append(f"The audit: all {passed:,} checks passed, {audit.with_name('index.html').resolve()}")
    return visible("\n".join(["", *lines, f"The report, with intervals: {page.resolve()}"]))


def results(headline: pl.DataFrame, datasets: tuple[str, ...]) -> str:
    """A row per method after its last step, means over its seeds: pass@k at the largest k, and styles, of each set."""
    means = last_steps(headline).group_by("method", "dataset", "metric").agg(pl.col("value").mean())
    cells = {row[:3]: row[3] for row in means.iter_rows()}
    columns: list[tuple[str, str]] = []
    for dataset in datasets:
        measured = {metric for _, name, metric in cells if name == dataset}
        passes = sorted((m for m in measured if m.startswith("pass@")), key=lambda m: int(m.partition("@")[2]))
        columns += [(dataset, metric) for metric in (*passes[-1:], *({_STYLES} & measured))]
    head = ["", *(f"{dataset}\n{metric_name(metric)}" for dataset, metric in columns)]
    rows = [
        [label(method), *(_shown(metric, cells.get((method, dataset, metric))) for dataset, metric in columns)]
        for method in in_order(means["method"])
    ]
    return tabulate(rows, head, disable_numparse=True, stralign="right", colalign=["left"] + ["right"] * len(columns))


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if metric == _STYLES else f"{100 * value:.1f}"
