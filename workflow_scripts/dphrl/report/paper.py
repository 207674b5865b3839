"""The tables of arXiv 2509.07430 in its layout, its published values, and methods that differ in eta alone."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from dphrl.evaluation.methods import in_order, label
from dphrl.evaluation.names import numbered, published_k
from dphrl.report.headline import at_published_k, last_steps, latex_table, markdown_table, metric_name
from dphrl.store.catalogue import SCHEMAS
from dphrl.text import percent

AVERAGE = "average"
_SHOWN = (
    "In per cent, after the last step; over several training seeds their mean and standard deviation. Intervals over"
    " questions are in tables/{}.parquet."
)
_KEEP_EXPLORE = (
    "Keep: of the questions that the base solves with k samples, the share that a policy solves as well; explore: the"
    " share of the other questions. k is 8, or less where questions have fewer samples. Where they have 2k, the base"
    " against itself, with another draw, shows what chance alone gives."
)

Column = tuple[str, str]


@dataclass(frozen=True)
class Layout:
    """A table of the paper: its metrics and evaluation sets.

    Attributes:
        task: of the evaluation sets shown; None for all. In mathematics the last column is the mean of all others.
        metrics: of each set, in order; `pass@` means pass@k for the published k.
        source: the table of this run with the intervals.
        published: the tables of the paper with this layout.
    """

    name: str
    task: str | None
    metrics: tuple[str, ...]
    source: str
    title: str
    published: str = ""

    @property
    def caption(self) -> str:
        """The caption, with the file of the table."""
        words = f"Layout of {self.published} of arXiv 2509.07430." if self.published else _KEEP_EXPLORE
        return f"{words} {_SHOWN.format(self.source)} From tables/paper/{self.name}.parquet."

    def columns(self, datasets: Mapping[str, str], measured: set[Column]) -> list[Column]:
        """Dataset and metric of each column that was measured, without the average."""
        wanted = [
            (dataset, name)
            for dataset, task in datasets.items()
            if self.task in (None, task)
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
        Layout("sql", "sql", ("greedy", "pass@"), "headline", "Text-to-SQL: greedy and pass@k", "Tables 1 and 2"),
        Layout("maths", "math", ("pass@",), "passk", "Mathematics: pass@k", "Tables 3 and 4"),
        Layout("maths_mean", "math", ("mean",), "headline", "Mathematics: mean of the samples", "Table 8"),
        Layout("keep_explore", None, ("keep", "explore"), "keep_explore", "Keep and explore"),
    )
}


def names(tasks: Iterable[str], keep_measured: bool) -> list[str]:
    """Names of the tables of a run: by the tasks of its evaluation sets, and keep_explore if keep was measured."""
    measured_tasks = set(tasks)
    return [
        name for name, layout in LAYOUTS.items() if (layout.task in measured_tasks if layout.task else keep_measured)
    ]


def lay_out(
    name: str,
    tables: Mapping[str, pl.DataFrame],
    datasets: Mapping[str, str],
    published: Mapping[str, Mapping[str, Any]] | None = None,
) -> pl.DataFrame:
    """One table of the paper from the tables of a run.

    Args:
        name: one of `LAYOUTS`.
        tables: headline, passk and keep_explore.
        datasets: the evaluation sets in the order of the columns, with their tasks.
        published: the result of `published.read_published`, if the run follows a setting of the paper.

    Returns:
        row, column i32, source str ("this run" or where it was published), policy str, seeds i32|null, dataset, metric
        str, value f64|null and sd f64|null (over seeds) as proportions; every cell of the grid, by row and column.

    Raises:
        ValueError: no published value is for a dataset and metric of this run.
    """
    measured = _measured(tables)
    columns = LAYOUTS[name].columns(datasets, set(measured.select("dataset", "metric").iter_rows()))
    if LAYOUTS[name].task == "math" and len(columns) > 1:
        measured = pl.concat([measured, _averages(measured, columns)])
        columns.append((AVERAGE, AVERAGE))
    value = pl.col("value")
    groups = measured.group_by("method", "dataset", "metric")
    cells = {row[:3]: row[3:] for row in groups.agg(seeds=pl.len(), mean=value.mean(), sd=value.std()).iter_rows()}
    methods = in_order({method for method, *column in cells if tuple(column) in columns})
    rows = [
        ("this run", label(method), [cells.get((method, *column), (None,) * 3) for column in columns])
        for method in methods
    ]
    if published and name in published:
        rows += _published(published[name], columns)
    return SCHEMAS["paper"].frame(
        [
            (row, place, source, policy, seeds, *column, value, sd)
            for row, (source, policy, values) in enumerate(rows)
            for place, (column, (seeds, value, sd)) in enumerate(zip(columns, values, strict=True))
        ]
    )


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """A table of `lay_out` for reading: a column `Policy`, then one for each dataset and metric, all text."""
    rows: dict[int, list[str]] = {}
    heads: dict[int, str] = {}
    for cell in table.sort("row", "column").iter_rows(named=True):
        rows.setdefault(cell["row"], [_policy(cell)]).append(_cell(cell))
        dataset, metric = cell["dataset"], cell["metric"]
        heads[cell["column"]] = "Average" if dataset == AVERAGE else f"{dataset} {metric_name(metric)}"
    return pl.DataFrame(list(rows.values()), schema=dict.fromkeys(["Policy", *heads.values()], pl.String), orient="row")


def texts(name: str, table: pl.DataFrame) -> dict[str, str]:
    """A table of `lay_out` as text, by file ending: csv, md and tex."""
    read = shown(table)
    rows = [read.columns, *read.iter_rows()]
    title, caption = LAYOUTS[name].title, LAYOUTS[name].caption
    markdown = f"**{title}**\n\n{markdown_table(rows)}\n{caption}\n"
    return {"csv": read.write_csv(), "md": markdown, "tex": latex_table(rows, f"{title}. {caption}")}


def _measured(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """method, seed, dataset, metric (greedy, mean, pass@k, keep, explore), value after the last step."""
    metric = pl.col("metric").str.replace(r"^mean@\d+$", "mean")
    headline = tables["headline"].with_columns(metric=metric).filter(pl.col("metric").is_in(["greedy", "mean"]))
    solved = tables["passk"].with_columns(metric=pl.format("pass@{}", "k"))
    policy = ["method", "seed", "step", "dataset"]
    kept = at_published_k(tables["keep_explore"]).unpivot(["keep", "explore"], index=policy, variable_name="metric")
    columns = ["method", "seed", "dataset", "metric", "value"]
    return pl.concat(last_steps(frame).select(columns).drop_nulls() for frame in (headline, solved, kept))


def _averages(measured: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """The mean over `columns` of each training, where all of them were measured."""
    wanted = pl.DataFrame(columns, schema=["dataset", "metric"], orient="row")
    trainings = measured.join(wanted, on=["dataset", "metric"], how="semi").group_by("method", "seed")
    means = trainings.agg(value=pl.col("value").mean(), count=pl.len()).filter(count=len(columns))
    return means.with_columns(dataset=pl.lit(AVERAGE), metric=pl.lit(AVERAGE)).select(measured.columns)


def _published(table: Mapping[str, Any], columns: Sequence[Column]) -> list[tuple[str, str, list[tuple[Any, ...]]]]:
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
        rows.append((table["source"], policy, [(None, value and value / 100, None) for value in percents]))
    return rows


def _policy(cell: Mapping[str, Any]) -> str:
    if cell["source"] != "this run":
        return f"{cell['policy']} (published: {cell['source']})"
    return cell["policy"] if (cell["seeds"] or 1) == 1 else f"{cell['policy']} ({cell['seeds']} seeds)"


def _cell(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "-"
    digits = 2 if cell["dataset"] == AVERAGE else 1
    spread = "" if cell["sd"] is None else f" ± {percent(cell['sd'], digits)}"
    return f"{percent(cell['value'], digits)}{spread}"


# The names of methods in config/experiments, by the rows of the published tables.
_METHODS = {
    "Base": "base",
    "GRPO": "grpo",
    "DAPO": "dapo",
    "RKL": "rkl",
    "DPH-F": "dph_f",
    "DPH-JS": "dph_js",
    "DPH-JS, eta 0.01": "js_0_01",
    "DPH-JS, eta 0.05": "js_0_05",
    "DPH-JS, eta 0.2": "dph_js",
    "DPH-JS by definition, eta 0.01": "js_definition_0_01",
    "DPH-JS by definition, eta 0.05": "js_definition_0_05",
    "DPH-JS by definition, eta 0.2": "js_definition_0_2",
    "Alpha 0.2": "alpha_0_2",
    "Alpha 0.5": "alpha_0_5",
    "Alpha 0.8": "alpha_0_8",
}


def read_published(path: Path, setting: str) -> dict[str, dict[str, Any]]:
    """The published tables of a setting, by the name of their layout.

    Raises:
        ValueError: the setting is not in the file.
    """
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    if setting not in settings:
        raise ValueError(f"{path.name}: no setting {setting!r}; evaluate.published is one of {', '.join(settings)}")
    return {table["layout"]: table for table in settings[setting]}


def published_points(path: Path, setting: str) -> pl.DataFrame:
    """The published values that figures show next to a run of that setting.

    Returns:
        method str (as config/experiments names it), dataset str, metric str (greedy, mean or pass@k), value f64, a
        proportion; without averages and without rows of methods that no experiment trains.
    """
    cells = [
        (_METHODS[row], *column.split(" "), value / 100)
        for table in read_published(path, setting).values()
        for row, values in table["rows"].items()
        for column, value in zip(table["columns"], values, strict=True)
        if row in _METHODS and column != "average"
    ]
    return pl.DataFrame(cells, schema=["method", "dataset", "metric", "value"], orient="row")


_DIVERGENCES = {
    "forward_kl": "Forward KL (DPH-F)",
    "js": "JS (DPH-JS)",
    "js_definition": "JS by definition",
    "alpha": "Alpha",
    "reverse_kl": "Reverse KL (RKL)",
}


def families(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Two or more methods with a divergence that differ only in `eta`: method names by the name of their divergence.

    Args:
        methods: the blocks of the configuration by name.
    """
    alike: dict[str, list[str]] = {}
    for name in in_order(methods):
        if methods[name]["divergence"]:
            rest = {key: value for key, value in methods[name].items() if key != "eta"}
            alike.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    by_family: dict[str, list[str]] = {}
    for members in alike.values():
        if len(members) > 1:
            divergence = methods[members[0]]["divergence"]
            family = _DIVERGENCES.get(divergence, divergence)
            # A second family of one divergence is named after its first method.
            by_family[f"{family}, as {label(members[0])}" if family in by_family else family] = members
    return by_family


def ablation(headline: pl.DataFrame, methods: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """The table "ablation": the rates of solved prompts in the headline for the methods of `families`."""
    weights = [
        (family, float(methods[name]["eta"]), name) for family, members in families(methods).items() for name in members
    ]
    schema = {"family": pl.String, "eta": pl.Float64, "method": pl.String}
    named = pl.DataFrame(weights, schema=schema, orient="row").join(headline, on="method")
    return named.filter(pl.col("metric").str.contains("^(greedy$|mean@|pass@)")).select(
        list(SCHEMAS["ablation"].columns)
    )
