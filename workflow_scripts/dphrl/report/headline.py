"""The headline table arranged for reading, and metrics in words."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import polars as pl

from dphrl import text as numbers
from dphrl.evaluation.names import STYLES
from dphrl.report.methods import in_order, label
from dphrl.report.text_tables import Cell, Table, markdown, markdown_table

_WORDS: Final = {
    STYLES: "styles",
    "constants": "right constants",
    "accuracy_bought": "accuracy bought",
    "accuracy_bought_split": "accuracy bought with split draws",
}
_EXPLAINED: Final = {
    "greedy": "per cent of the questions that the most likely response solves",
    "mean@": "per cent of the samples that are right",
    "pass@": "per cent of the questions that at least one of k samples solves",
    STYLES: "different styles among all samples of a question, on average",
    "constants": "per cent of the right samples that read no table, and are right by chance",
}

_POLICY = ("method", "seed", "step")


def headline_table(table: pl.DataFrame, datasets: Sequence[str]) -> Table:
    """Value and interval of each metric on `datasets`, a row per policy: greedy, mean, pass@k, then counts."""
    here = table.filter(pl.col("dataset").is_in(datasets))
    columns = [
        (dataset, metric)
        for dataset in datasets
        for metric in sorted(set(here.filter(dataset=dataset)["metric"]), key=_rank)
    ]
    cells: dict[tuple[object, ...], Cell] = {}
    measured = here.select(*_POLICY, "dataset", "metric", "value", "low", "high")
    for *key, metric, value, low, high in measured.iter_rows():
        number = numbers.count if metric == STYLES else numbers.percent
        cells[*key, metric] = number(value), numbers.interval((low, high), number)
    place = pl.col("method").cast(pl.Enum(in_order(here["method"])))
    policies = here.select(_POLICY).unique().sort(place, "seed", "step").rows()
    rows: list[list[Cell]] = [
        [(label(policy[0]), training(*policy[1:])), *(cells.get((*policy, *column), "-") for column in columns)]
        for policy in policies
    ]
    heads = [metric_name(metric) if len(datasets) == 1 else f"{name} {metric_name(metric)}" for name, metric in columns]
    return Table(", ".join(datasets), explained([metric for _, metric in columns]), ["Policy", *heads], rows)


def training(seed: int, step: int) -> str:
    """Seed and step of a policy. Checkpoints of another trainer lack the step, policies without seeds lack both."""
    return f"seed {seed}, step {step}" if step else f"seed {seed}" if seed else ""


def in_words(metric: str) -> str:
    """Name of a metric for a sentence."""
    return _WORDS.get(metric, metric)


def value_text(metric: str, value: float) -> str:
    """A value as text: of proportions in per cent, of counts as it is."""
    return (numbers.count if metric == STYLES else numbers.percent)(value)


def difference_text(metric: str, value: float) -> str:
    """A difference as text: of proportions in points, of counts as it is."""
    return (numbers.change if metric == STYLES else numbers.points)(value)


def interval_text(row: Mapping[str, Any]) -> str:
    """The difference of a row of "comparisons" or "claims" with its interval."""
    value = difference_text(row["metric"], row["difference"])
    if row["low"] is None:
        return f"{value} no interval: all questions agree"
    text = numbers.change if row["metric"] == STYLES else numbers.points
    return f"{value} {numbers.interval((row['low'], row['high']), text)}"


def metric_name(metric: str) -> str:
    """Name of a metric for a column head; proportions are in per cent."""
    name = in_words(metric)
    return name[0].upper() + name[1:]


def explained(metrics: Collection[str]) -> str:
    """A sentence that explains the columns of these metrics."""
    names = dict[str, str]()
    for metric in metrics:
        family = next((start for start in _EXPLAINED if metric.startswith(start)), None)
        if family:
            names.setdefault("pass@k" if family == "pass@" else in_words(metric), _EXPLAINED[family])
    said = "; ".join(f"{name}: {meaning}" for name, meaning in names.items())
    return f"{said[:1].upper()}{said[1:]}. Brackets hold 95 % intervals." if said else ""


def headline_markdown(table: pl.DataFrame) -> str:
    """The headline table as a Markdown table per dataset, alphabetical; names are escaped."""
    return "\n".join(
        f"**{markdown(dataset)}**\n\n{markdown_table(headline_table(table, [dataset]))}"
        for dataset in sorted(set(table["dataset"]))
    )


def _rank(metric: str) -> tuple[int, int, str]:
    families = list(_EXPLAINED)
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
