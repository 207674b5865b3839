"""The headline table arranged for reading: a row per policy, a column per dataset and metric."""

import re
from collections.abc import Iterator, Sequence

import polars as pl

from dphrl.report.names import datasets_in_order, in_order, label
from dphrl.report.text import markdown, markdown_table

_METRICS = {"distinct_styles": "Styles", "distinct_programs": "Right programs", "constants": "Right constants"}


class Headline:
    """The headline table arranged for reading.

    Args:
        table: method, seed, step, dataset, metric, value, low, high; one row for each cell.
        order: of the datasets.

    Attributes:
        policies: method, seed and step of each policy.
        datasets: in the given order, others after them alphabetically.
        metrics: by dataset: greedy, mean@n, pass@k ascending, then counts of distinct styles and programs, then the
            share of right answers that read no table.
    """

    def __init__(self, table: pl.DataFrame, order: Sequence[str] = ()) -> None:
        place = pl.col("method").cast(pl.Enum(in_order(table["method"])))
        policies = table.select("method", "seed", "step").unique()
        self.policies: list[tuple[str, int, int]] = policies.sort(place, "seed", "step").rows()
        self.datasets: list[str] = datasets_in_order(table, order)
        self.metrics = {name: sorted(set(table.filter(dataset=name)["metric"]), key=_rank) for name in self.datasets}
        cells = table.select("method", "seed", "step", "dataset", "metric", "value", "low", "high")
        self._cells = {row[:5]: row[5:] for row in cells.iter_rows()}

    def policy_name(self, policy: tuple[str, int, int]) -> str:
        """Label of a policy, with its seed and step if it was trained."""
        method, seed, step = policy
        return f"{label(method)} (seed {seed}, step {step})" if step else label(method)

    def cell(self, policy: tuple[str, int, int], dataset: str, metric: str) -> tuple[str, str] | None:
        """Value and interval as text, in per cent where the metric is a proportion; None if it was not measured."""
        found = self._cells.get((*policy, dataset, metric))
        if found is None:
            return None
        scale, digits = (1.0, 2) if metric.startswith("distinct_") else (100.0, 1)
        value, low, high = (f"{number * scale:.{digits}f}" for number in found)
        return value, f"[{low}, {high}]"

    def rows(self, datasets: Sequence[str]) -> Iterator[list[str]]:
        """Header, then a row per policy: its name, then "value [low, high]" for each metric of `datasets`."""
        columns = [(dataset, metric) for dataset in datasets for metric in self.metrics[dataset]]
        prefix = "{} " if len(datasets) > 1 else ""
        yield ["Policy", *(prefix.format(dataset) + metric_name(metric) for dataset, metric in columns)]
        for policy in self.policies:
            cells = [self.cell(policy, *column) for column in columns]
            yield [self.policy_name(policy), *(" ".join(cell) if cell else "-" for cell in cells)]


def main_metrics(metrics: Sequence[str]) -> list[str]:
    """What a narrow screen shows: pass@k at the largest k, and styles; all, where none of these was measured."""
    passes = [metric for metric in metrics if metric.startswith("pass@")]
    found = [*passes[-1:], *(metric for metric in metrics if metric == "distinct_styles")]
    return found or list(metrics)


def metric_name(metric: str) -> str:
    """Name of a metric for a column head; proportions are in per cent."""
    return _METRICS.get(metric, metric[0].upper() + metric[1:])


def headline_markdown(table: pl.DataFrame, order: Sequence[str] = ()) -> str:
    """The headline table as a Markdown table per dataset; names are escaped."""
    headline = Headline(table, order)
    return "\n".join(
        f"**{markdown(dataset)}**\n\n{markdown_table(list(headline.rows([dataset])))}" for dataset in headline.datasets
    )


def headline_csv(table: pl.DataFrame, order: Sequence[str] = ()) -> str:
    """The headline table as one CSV table, the same cells as in Markdown."""
    headline = Headline(table, order)
    head, *rows = headline.rows(headline.datasets)
    return pl.DataFrame(rows, schema=head, orient="row").write_csv()


def _rank(metric: str) -> tuple[int, int, str]:
    families = ("greedy", "mean@", "pass@", "distinct_styles", "distinct_programs", "constants")
    family = next((place for place, start in enumerate(families) if metric.startswith(start)), len(families))
    number = re.search(r"@(\d+)$", metric)
    return family, int(number[1]) if number else 0, metric
