"""The headline table arranged for reading: a row per policy, a column per dataset and metric."""

import re
from collections.abc import Iterator, Sequence

import polars as pl

from dphrl.report.names import in_order, label
from dphrl.report.text import markdown, markdown_table

_METRICS = {
    "greedy": "Greedy",
    "distinct_styles": "Styles",
    "distinct_programs": "Right programs",
}
_MISSING = "-"


class Headline:
    """The headline table arranged for reading.

    Args:
        table: method, seed, step, dataset, metric, value, low, high; one row for each cell.
    """

    def __init__(self, table: pl.DataFrame) -> None:
        order = in_order(table["method"])
        keys = table.select("method", "seed", "step").unique()
        policies = sorted(keys.iter_rows(), key=lambda key: (order.index(key[0]), *key[1:]))
        self.policies: list[tuple[str, int, int]] = policies
        self.datasets: list[str] = table["dataset"].unique().sort().to_list()
        pairs = table.select("dataset", "metric").unique().iter_rows()
        self._metrics: dict[str, list[str]] = {dataset: [] for dataset in self.datasets}
        for dataset, metric in sorted(pairs, key=lambda pair: (pair[0], _rank(pair[1]))):
            self._metrics[dataset].append(metric)
        self._cells = {
            (method, seed, step, dataset, metric): (value, low, high)
            for method, seed, step, dataset, metric, value, low, high in table.select(
                "method", "seed", "step", "dataset", "metric", "value", "low", "high"
            ).iter_rows()
        }

    def metrics(self, dataset: str) -> list[str]:
        """Metrics of a dataset: greedy, mean@n, pass@k ascending, then counts of distinct styles and programs."""
        return self._metrics[dataset]

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
        columns = [(dataset, metric) for dataset in datasets for metric in self.metrics(dataset)]
        several = len(datasets) > 1
        yield [
            "Policy",
            *(f"{dataset} {metric_name(metric)}" if several else metric_name(metric) for dataset, metric in columns),
        ]
        for policy in self.policies:
            cells = [self.cell(policy, *column) for column in columns]
            yield [self.policy_name(policy), *(" ".join(cell) if cell else _MISSING for cell in cells)]


def metric_name(metric: str) -> str:
    """Name of a metric for a column head; proportions are in per cent."""
    if metric in _METRICS:
        return _METRICS[metric]
    return metric[0].upper() + metric[1:]


def headline_markdown(table: pl.DataFrame) -> str:
    """The headline table as a Markdown table per dataset; names are escaped."""
    headline = Headline(table)
    return "\n".join(
        f"**{markdown(dataset)}**\n\n{markdown_table(list(headline.rows([dataset])))}" for dataset in headline.datasets
    )


def headline_csv(table: pl.DataFrame) -> str:
    """The headline table as one CSV table, the same cells as in Markdown."""
    headline = Headline(table)
    head, *rows = headline.rows(headline.datasets)
    return pl.DataFrame(rows, schema=head, orient="row").write_csv()


def _rank(metric: str) -> tuple[int, int, str]:
    families = ("greedy", "mean@", "pass@", "distinct_styles", "distinct_programs")
    family = next((place for place, start in enumerate(families) if metric.startswith(start)), len(families))
    number = re.search(r"@(\d+)$", metric)
    return family, int(number[1]) if number else 0, metric
