"""The tables of arXiv 2509.07430 in its layout, and its published values."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from dphrl.evaluation.methods import in_order, label
from dphrl.evaluation.names import numbered, published_k
from dphrl.report.headline import last_steps, metric_name
from dphrl.report.text_tables import Table
from dphrl.text import percent

AVERAGE = "average"
_SHOWN = "In per cent, after the last step; over several training seeds their mean and standard deviation."
Column = tuple[str, str]


@dataclass(frozen=True)
class Layout:
    """A table of the paper: its metrics and evaluation sets.

    Attributes:
        task: of the evaluation sets shown. In mathematics the last column is the mean of all others.
        metrics: of each set, in order; `pass@` means pass@k for the published k.
        published: the tables of the paper with this layout.
    """

    name: str
    task: str
    metrics: tuple[str, ...]
    title: str
    published: str

    @property
    def caption(self) -> str:
        return f"Layout of {self.published} of arXiv 2509.07430. {_SHOWN}"

    def columns(self, datasets: Mapping[str, str], measured: set[Column]) -> list[Column]:
        """Dataset and metric of each column that was measured, without the average."""
        wanted = [
            (dataset, name)
            for dataset, task in datasets.items()
            if self.task == task
            for metric in self.metrics
            for name in (self._with_k(dataset, measured) if metric == "pass@" else [metric])
        ]
        return [column for column in dict.fromkeys(wanted) if column in measured]

    def _with_k(self, dataset: str, measured: set[Column]) -> Iterable[str]:
        """pass@k for the published k, or for the largest measured k below it."""
        ks = numbered((name for where, name in measured if where == dataset), "pass@")
        for k in (8, 16) if self.task == "sql" else (published_k(dataset),):
            yield f"pass@{max((measured_k for measured_k in ks if measured_k <= k), default=ks[0] if ks else k)}"


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("sql", "sql", ("greedy", "pass@"), "Text-to-SQL: greedy and pass@k", "Tables 1 and 2"),
        Layout("maths", "math", ("pass@",), "Mathematics: pass@k", "Tables 3 and 4"),
        Layout("maths_mean", "math", ("mean",), "Mathematics: mean of the samples", "Table 8"),
    )
}


def names(tasks: Iterable[str]) -> list[str]:
    """Names of the tables of a run, by the tasks of its evaluation sets."""
    measured_tasks = set(tasks)
    return [name for name, layout in LAYOUTS.items() if layout.task in measured_tasks]


def lay_out(
    name: str,
    tables: Mapping[str, pl.DataFrame],
    datasets: Mapping[str, str],
    published: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """One table of the paper from the tables of a run: a row per policy, a column per dataset and metric.

    Args:
        name: one of `LAYOUTS`.
        tables: headline and passk.
        datasets: the evaluation sets in the order of the columns, with their tasks.
        published: the result of `read_published`, if the run follows a setting of the paper; its rows come last.

    Raises:
        ValueError: no published value is for a dataset and metric of this run.
    """
    measured, layout = _measured(tables), LAYOUTS[name]
    columns = layout.columns(datasets, set(measured.select("dataset", "metric").iter_rows()))
    if layout.task == "math" and len(columns) > 1:
        measured = pl.concat([measured, _averages(measured, columns)])
        columns.append((AVERAGE, AVERAGE))
    value = pl.col("value")
    groups = measured.group_by("method", "dataset", "metric")
    cells = {row[:3]: row[3:] for row in groups.agg(seeds=pl.len(), mean=value.mean(), sd=value.std()).iter_rows()}
    methods = in_order({method for method, *column in cells if tuple(column) in columns})
    rows = [
        _row(method, [cells.get((method, *column), (1, None, None)) for column in columns], columns)
        for method in methods
    ]
    if published and name in published:
        rows += _published(published[name], columns)
    heads = ["Average" if name == AVERAGE else f"{name} {metric_name(metric)}" for name, metric in columns]
    return Table(layout.title, layout.caption, ["Policy", *heads], rows)


def read_laid_out(name: str, file: Path) -> Table:
    """A table of `lay_out` from its CSV file."""
    heads, *rows = csv.reader(file.read_text(encoding="utf-8").splitlines())
    return Table(LAYOUTS[name].title, LAYOUTS[name].caption, heads, rows)


def _row(method: str, cells: Sequence[tuple[int, float | None, float | None]], columns: Sequence[Column]) -> list[str]:
    seeds = max(cell[0] for cell in cells)
    texts = [_cell(dataset, mean, sd) for (dataset, _), (_, mean, sd) in zip(columns, cells, strict=True)]
    return [label(method) if seeds == 1 else f"{label(method)} ({seeds} seeds)", *texts]


def _cell(dataset: str, mean: float | None, sd: float | None = None) -> str:
    if mean is None:
        return "-"
    digits = 2 if dataset == AVERAGE else 1
    return percent(mean, digits) + ("" if sd is None else f" ± {percent(sd, digits)}")


def _measured(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """method, seed, dataset, metric (greedy, mean, pass@k), value after the last step."""
    metric = pl.col("metric").str.replace(r"^mean@\d+$", "mean")
    headline = tables["headline"].with_columns(metric=metric).filter(pl.col("metric").is_in(["greedy", "mean"]))
    solved = tables["passk"].with_columns(metric=pl.format("pass@{}", "k"))
    columns = ["method", "seed", "dataset", "metric", "value"]
    return pl.concat(last_steps(frame).select(columns).drop_nulls() for frame in (headline, solved))


def _averages(measured: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """The mean over `columns` of each training, where all of them were measured."""
    wanted = pl.DataFrame(columns, schema=["dataset", "metric"], orient="row")
    trainings = measured.join(wanted, on=["dataset", "metric"], how="semi").group_by("method", "seed")
    means = trainings.agg(value=pl.col("value").mean(), count=pl.len()).filter(count=len(columns))
    return means.with_columns(dataset=pl.lit(AVERAGE), metric=pl.lit(AVERAGE)).select(measured.columns)


def _published(table: Mapping[str, Any], columns: Sequence[Column]) -> list[list[str]]:
    """Published rows in the columns of this run; a value is used only for its dataset and metric."""
    heads = [(AVERAGE, AVERAGE) if name == AVERAGE else tuple(name.split(" ")) for name in table["columns"]]
    sets = {head for head in heads if head[0] != AVERAGE}
    if not sets & set(columns):
        raise ValueError(
            f"{table['source']} has {', '.join(table['columns'])}; this run has {', '.join(map(' '.join, columns))};"
            " name the datasets so, or leave out evaluate.published"
        )
    # An average over other columns cannot be compared with the average of this run.
    same = sets == {column for column in columns if column[0] != AVERAGE}
    rows = []
    for policy, values in table["rows"].items():
        by_column = {head: value for head, value in zip(heads, values, strict=True) if same or head[0] != AVERAGE}
        percents = [by_column.get(column) for column in columns]
        cells = [_cell(column[0], value and value / 100) for column, value in zip(columns, percents, strict=True)]
        rows.append([f"{policy} (published: {table['source']})", *cells])
    return rows


def read_published(path: Path, setting: str) -> dict[str, dict[str, Any]]:
    """The published tables of a setting, by the name of their layout.

    Raises:
        ValueError: the setting is not in the file.
    """
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    if setting not in settings:
        raise ValueError(f"{path.name}: no setting {setting!r}; evaluate.published is one of {', '.join(settings)}")
    return {table["layout"]: table for table in settings[setting]}
