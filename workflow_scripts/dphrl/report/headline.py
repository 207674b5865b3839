"""The headline table arranged for reading, and tables as Markdown and LaTeX text."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from tabulate import tabulate

from dphrl import text as numbers
from dphrl.evaluation.methods import in_order, label

AMONG_ALL = "distinct_styles"
"""The count of diversity that is of all samples; the others are of the right ones."""
# Counts of diversity; the first that was measured on a dataset is its diversity.
_VARIETY = {
    AMONG_ALL: "styles",
    "distinct_programs": "right programs",
    "distinct_skeletons": "calculations",
    "distinct_right_answers": "right answer classes",
}
_CONSTANTS = "constants"
NO_INTERVAL = "no interval: all questions agree"
_WORDS = {**_VARIETY, _CONSTANTS: "right constants"}


class Headline:
    """The headline table arranged for reading.

    Args:
        table: method, seed, step, dataset, metric, value, low, high; one row for each cell.
        order: of the datasets.

    Attributes:
        policies: method, seed and step of each policy.
        datasets: in the given order, others after them alphabetically.
        metrics: by dataset: greedy, mean@n, pass@k ascending, then counts of different classes among the samples,
            then the share of right answers that read no table.
    """

    def __init__(self, table: pl.DataFrame, order: Sequence[str] = ()) -> None:
        place = pl.col("method").cast(pl.Enum(in_order(table["method"])))
        policies = table.select("method", "seed", "step").unique()
        self.policies: list[tuple[str, int, int]] = policies.sort(place, "seed", "step").rows()
        self.datasets: list[str] = datasets_in_order(table, order)
        self.metrics = {
            name: sorted(set(table.filter(dataset=name)["metric"]), key=_metric_rank) for name in self.datasets
        }
        cells = table.select("method", "seed", "step", "dataset", "metric", "value", "low", "high")
        self._cells = {row[:5]: row[5:] for row in cells.iter_rows()}

    def policy_name(self, policy: tuple[str, int, int]) -> str:
        """Label of a policy, with the seed and step of its training."""
        method, seed, step = policy
        return f"{label(method)} ({training(seed, step)})" if seed or step else label(method)

    def cell(self, policy: tuple[str, int, int], dataset: str, metric: str) -> tuple[str, str] | None:
        """Value and interval as text, in per cent where the metric is a proportion; None if it was not measured."""
        estimate = self._cells.get((*policy, dataset, metric))
        if estimate is None:
            return None
        value, *ends = estimate
        return value_text(metric, value), numbers.interval(
            ends, numbers.count if metric in _VARIETY else numbers.percent
        )

    def rows(self, datasets: Sequence[str]) -> Iterator[list[str]]:
        """Header, then a row per policy: its name, then "value [low, high]" for each metric of `datasets`."""
        columns = [(dataset, metric) for dataset in datasets for metric in self.metrics[dataset]]
        prefix = "{} " if len(datasets) > 1 else ""
        yield ["Policy", *(prefix.format(dataset) + metric_name(metric) for dataset, metric in columns)]
        for policy in self.policies:
            cells = [self.cell(policy, *column) for column in columns]
            yield [self.policy_name(policy), *(" ".join(cell) if cell else "-" for cell in cells)]


def training(seed: int, step: int) -> str:
    """Seed and step of a policy. Checkpoints of another trainer lack the step, policies without seeds lack both."""
    return f"seed {seed}, step {step}" if step else f"seed {seed}" if seed else ""


def variety_of(metrics: Collection[str]) -> str | None:
    """The metric of diversity among the metrics of a dataset; None without such a metric."""
    return next((name for name in _VARIETY if name in metrics), None)


def main_metrics(metrics: Sequence[str]) -> list[str]:
    """Metrics for a narrow screen: pass@k at the largest k, and diversity. All metrics if neither was measured."""
    passes = [metric for metric in metrics if metric.startswith("pass@")]
    variety = variety_of(metrics)
    return [*passes[-1:], *([variety] if variety else [])] or list(metrics)


def in_words(metric: str) -> str:
    """Name of a metric for a sentence."""
    return _WORDS.get(metric, metric)


def value_text(metric: str, value: float) -> str:
    """A value as text: of proportions in per cent, of counts as it is."""
    return (numbers.count if metric in _VARIETY else numbers.percent)(value)


def difference_text(metric: str, value: float | None) -> str:
    """A difference as text: of proportions in points, of counts as it is; "-" for none."""
    return "-" if value is None else (numbers.change if metric in _VARIETY else numbers.points)(value)


def interval_text(row: Mapping[str, Any]) -> str:
    """The difference of a row of "comparisons" or "claims" with its interval."""
    value = difference_text(row["metric"], row["difference"])
    if row["low"] is None:
        return f"{value}, {NO_INTERVAL}"
    text = numbers.change if row["metric"] in _VARIETY else numbers.points
    return f"{value} {numbers.interval((row['low'], row['high']), text)}"


def metric_name(metric: str) -> str:
    """Name of a metric for a column head; proportions are in per cent."""
    name = in_words(metric)
    return name[0].upper() + name[1:]


def how_to_read(metrics: Collection[str]) -> str:
    """Sentences that explain the columns of these metrics."""
    sentences = [
        "Greedy, mean@n and pass@k are in per cent. Brackets hold the interval over questions. Where k"
        " is the number of samples, each question counts 0 or 1, so the interval can be wider than at a smaller k."
    ]
    if AMONG_ALL in metrics:
        sentences.append(f"{metric_name(AMONG_ALL)}: different ones among all samples of a question, on average.")
    if among_right := [words for name, words in _VARIETY.items() if name in metrics and name != AMONG_ALL]:
        listed = " and ".join(among_right).capitalize()
        sentences.append(
            f"{listed}: different ones among the right samples of a question, on average; 0 for one without any."
        )
    if _CONSTANTS in metrics:
        sentences.append(
            f"{metric_name(_CONSTANTS)}: per cent of the right samples that read no table; these are right by chance."
        )
    return " ".join(sentences)


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


def _metric_rank(metric: str) -> tuple[int, int, str]:
    families = ("greedy", "mean@", "pass@", *_WORDS)
    family = next((place for place, start in enumerate(families) if metric.startswith(start)), len(families))
    number = re.search(r"@(\d+)$", metric)
    return family, int(number[1]) if number else 0, metric


def datasets_in_order(table: pl.DataFrame, order: Sequence[str]) -> list[str]:
    """The datasets of a table in the given order, all others after them alphabetically."""
    return sorted(set(table["dataset"]), key=lambda name: (order.index(name) if name in order else len(order), name))


def last_steps(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of the last step of each method and seed."""
    return table.filter(pl.col("step") == pl.col("step").max().over("method", "seed"))


def at_published_k(table: pl.DataFrame) -> pl.DataFrame:
    """Of each dataset the rows of k = 8, as published (arXiv 2509.07430, Figure 4), else the nearest k."""
    k = pl.col("k")
    below, smallest = k.filter(k <= 8).max().over("dataset"), k.min().over("dataset")
    return table.filter(k == pl.coalesce(below, smallest))


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


def markdown_table(rows: Sequence[Sequence[object]], align: str = "") -> str:
    """Header and rows as a Markdown table, padded to be readable in a terminal.

    Args:
        align: "l" or "r" for each column; by default the first is left-aligned, all others are right-aligned.
    """
    head, *body = [[markdown(str(cell)) for cell in row] for row in rows]
    sides = ["left" if side == "l" else "right" for side in align or "l" + "r" * (len(head) - 1)]
    return tabulate(body, head, tablefmt="pipe", disable_numparse=True, colalign=sides) + "\n"


def latex_table(rows: Sequence[Sequence[object]], caption: str) -> str:
    """Header and rows as a LaTeX table with the rules of the package booktabs; text is escaped."""
    # Not by tabulate, which leaves `|` and `"` as they are: LaTeX prints other characters for them.
    head, *body = [" & ".join(str(cell).translate(_LATEX) for cell in row) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    start = [r"\begin{table}", rf"\caption{{{caption.translate(_LATEX)}}}", rf"\begin{{tabular}}{{{columns}}}"]
    end = [r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*start, r"\toprule", head, r"\midrule", *body, r"\bottomrule", *end])


def markdown(text: str) -> str:
    """`text` in one line, with the special characters of Markdown escaped."""
    return re.sub(r"([\\|`*_<>#])", r"\\\1", text).replace("\n", " ")
