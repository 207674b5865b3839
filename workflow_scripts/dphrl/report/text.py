"""Tables as text: the headline with a row per policy, and any table as CSV, Markdown, LaTeX or HTML, escaped."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from html import escape

import polars as pl

from dphrl.report.names import in_order, label

_METRICS = {
    "greedy": "Greedy",
    "distinct_styles": "Styles",
    "distinct_programs": "Right programs",
}
_MISSING = "-"
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "±": r"$\pm$",
        "\n": " ",
    }
)


class Headline:
    """The headline frame arranged for reading.

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
        """Metrics of a dataset: greedy, mean@n, pass@k ascending, then counts of distinct things."""
        return self._metrics[dataset]

    def policy_name(self, policy: tuple[str, int, int]) -> str:
        """Name of a policy for a reader, with its seed and step if it was trained."""
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

    def rows(self, datasets: Sequence[str]) -> Iterable[list[str]]:
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
    """The headline frame as a Markdown table per dataset, padded to read well in a terminal; names are escaped."""
    headline = Headline(table)
    return "\n".join(_dataset_markdown(headline, dataset) for dataset in headline.datasets)


def headline_csv(table: pl.DataFrame) -> str:
    """The headline frame as one CSV table with "\\n" line ends, the same cells as in Markdown."""
    headline = Headline(table)
    return csv_table(headline.rows(headline.datasets))


def csv_table(rows: Iterable[Sequence[object]]) -> str:
    """Header and rows as CSV with "\\n" line ends."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def markdown_table(rows: Sequence[Sequence[object]]) -> str:
    """Header and rows as a Markdown table, padded to read well in a terminal; text is escaped."""
    head, *body = [[_markdown(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        " | ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (head, rule, *body)
    ]
    return "".join(f"| {line} |\n" for line in lines)


def latex_table(rows: Sequence[Sequence[object]], caption: str) -> str:
    """Header and rows as a LaTeX table with the rules of the package booktabs; text is escaped."""
    head, *body = [" & ".join(_latex(str(cell)) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_latex(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def html(frame: pl.DataFrame, caption: str) -> str:
    """A frame as an HTML table: its column names as heads, its first column as heads of the rows; text is escaped."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in frame.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(_shown(first))}</th>'
        + "".join(f"<td>{escape(_shown(value))}</td>" for value in rest)
        + "</tr>\n"
        for first, *rest in frame.iter_rows()
    )
    return (
        f"<table>\n<caption>{escape(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody>\n</table>\n"
    )


def _dataset_markdown(headline: Headline, dataset: str) -> str:
    return f"**{_markdown(dataset)}**\n\n{markdown_table(list(headline.rows([dataset])))}"


def _rank(metric: str) -> tuple[int, int, str]:
    families = ("greedy", "mean@", "pass@", "distinct_styles", "distinct_programs")
    family = next((place for place, start in enumerate(families) if metric.startswith(start)), len(families))
    number = re.search(r"@(\d+)$", metric)
    return family, int(number[1]) if number else 0, metric


def _shown(value: object) -> str:
    if value is None:
        return _MISSING
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _latex(cell: str) -> str:
    return cell.translate(_LATEX)


def _markdown(cell: str) -> str:
    return re.sub(r"([\\|`*_<>#])", r"\\\1", cell).replace("\n", " ")
