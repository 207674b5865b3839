"""The published tables of arXiv 2509.07430 with the values of a run above them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import polars as pl
import yaml

from dphrl.report.headline import last_steps
from dphrl.report.methods import in_order, label
from dphrl.report.text_tables import Table
from dphrl.text import percent

AVERAGE = "average"


def read_published(setting: str) -> list[dict[str, Any]]:
    """The published tables of a setting, from published.yaml."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    tables: list[dict[str, Any]] = yaml.safe_load(text)[setting]
    return tables


def published_tables(
    published: Sequence[Mapping[str, Any]], headline: pl.DataFrame, passk: pl.DataFrame
) -> Iterator[Table]:
    """Each published table with a row for each method of the run, then the published rows, in per cent.

    A column is a dataset and a metric (greedy, mean, pass@k) that the run has; the average needs all of them.

    Args:
        published: of `read_published`.
        headline, passk: tables of the run.
    """
    measured = _trainings(headline, passk)
    for table in published:
        sets = [column for column in table["columns"] if column != AVERAGE]
        ours = {
            method: [values | _average(values, sets) for values in trainings] for method, trainings in measured.items()
        }
        known = {column for trainings in ours.values() for values in trainings for column in values}
        shown = [place for place, column in enumerate(table["columns"]) if column in known]
        rows = []
        for method in in_order(ours):
            seeds = f" ({len(ours[method])} seeds)" if len(ours[method]) > 1 else ""
            cells = [_cell(table["columns"][place], ours[method]) for place in shown]
            rows.append([f"{label(method)}{seeds}", *cells])
        for method, values in table["rows"].items():
            cells = ["-" if values[place] is None else f"{values[place]:.1f}" for place in shown]
            rows.append([f"{label(method)}, published", *cells])
        if shown:
            caption = "In per cent, after the last step; of several seeds their mean and standard deviation."
            yield Table(table["source"], caption, ["Policy", *(table["columns"][place] for place in shown)], rows)


def _average(values: Mapping[str, float], sets: Sequence[str]) -> dict[str, float]:
    return {AVERAGE: mean(values[column] for column in sets)} if {*sets} <= values.keys() else {}


def _trainings(headline: pl.DataFrame, passk: pl.DataFrame) -> dict[str, list[dict[str, float]]]:
    """By method the values of each training after its last step, by "DATASET METRIC"."""
    single = headline.with_columns(metric=pl.col("metric").str.replace(r"^mean@\d+$", "mean"))
    single = single.filter(pl.col("metric").is_in(["greedy", "mean"]))
    solved = passk.with_columns(metric=pl.format("pass@{}", "k"))
    trainings: dict[str, dict[int, dict[str, float]]] = {}
    for frame in (single, solved):
        rows = last_steps(frame).select("method", "seed", pl.format("{} {}", "dataset", "metric"), "value")
        for method, seed, column, value in rows.iter_rows():
            trainings.setdefault(method, {}).setdefault(seed, {})[column] = value
    return {method: list(by_seed.values()) for method, by_seed in trainings.items()}


def _cell(column: str, trainings: Sequence[Mapping[str, float]]) -> str:
    values = [training[column] for training in trainings if column in training]
    if not values:
        return "-"
    return percent(mean(values)) + (f" ± {percent(stdev(values))}" if len(values) > 1 else "")
