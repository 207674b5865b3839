"""The tables of the page, prepared for its template."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from dphrl.evaluation.methods import in_order, label
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.report.findings import HEADS, claim_tables
from dphrl.report.headline import Headline, main_metrics, metric_name, training
from dphrl.report.paper import LAYOUTS, shown
from dphrl.report.refused_answers import Scored, Shown, missing_of_run, rules_of_run
from dphrl.report.shown_samples import Sample
from dphrl.text import interval, percent, points

TRAINING = {
    "training_use": (
        "What a training uses",
        "Steps, prompts, rollouts and tokens of a training of each method; means over its training seeds. Drawn are the"
        " tokens of all rollouts, with those that dynamic sampling left out; stored those of rehearsed responses. From"
        " tables/training_use.parquet.",
    ),
    "training_probes": (
        "What training does to the probes",
        "Fixed samples of prompts of D_pef (near-perfect) and D_exp (exploration), answered before the first step and"
        " after the last one that was measured: share of right answers, different styles and classes of right answers"
        " per prompt, forward KL from the base in nats per token (none before the first step). Means over training"
        " seeds; all steps are in tables/training_probes.parquet.",
    ),
    "training_cost": (
        "What a training costs",
        "Seconds and tokens of a training of each method, by part; means over its training seeds. Methods compare"
        " where they ran on the same machine with nothing else running. From timings/training_cost.parquet.",
    ),
}
"""Tables about the trainings: heading and caption, by schema."""
# The parts of a stage that are all of its time; the others are parts of the total.
_WHOLE = ("imports", "total")
# Whole numbers that name something: 2,509 would be odd.
_NAMES_OF = ("seed", "step", "k")
_SUBSETS = {"pef": "near-perfect prompts (D_pef)", "exp": "exploration prompts (D_exp)", "dropped": "dropped prompts"}


def partition_sizes(partitions: Iterable[pl.DataFrame]) -> dict[str, str]:
    """The numbers of training prompts, in all and in each subset, of the final partitions: one number, or the range."""
    counts = [{"": prompts.height, **dict(prompts.group_by("subset").len().iter_rows())} for prompts in partitions]
    if not counts:
        return {}
    named = {"": "training prompts", **_SUBSETS}
    sizes = {words: sorted({count.get(name, 0) for count in counts}) for name, words in named.items()}
    return {words: " to ".join(f"{size:,}" for size in dict.fromkeys((of[0], of[-1]))) for words, of in sizes.items()}


def page_tables(
    papers: Mapping[str, pl.DataFrame],
    further: Mapping[str, pl.DataFrame],
    training: Mapping[str, pl.DataFrame],
    scored: Scored = ((), {}, {}),
) -> dict[str, list[Shown]]:
    """Title, caption and frame of each table of the page after the headline, by the heading of its section.

    Args:
        papers: the tables in the paper's layout, by name.
        further: the tables of `FURTHER`, by name.
        training: the tables of `TRAINING`, by name; none where nothing was trained.
        scored: the verdicts whose rules are counted.
    """
    in_layout = [(LAYOUTS[name].title, LAYOUTS[name].caption, shown(table)) for name, table in papers.items()]
    trainings = [(*TRAINING[name], _first_and_last(table)) for name, table in training.items()]
    compared = further_tables(further)
    hotter = compared.pop("hotter", None)
    others = [
        *in_layout,
        *compared.values(),
        *(table for table in trainings if table[-1].height),
        *missing_of_run(scored),
        *rules_of_run(scored),
    ]
    sections = {"Drawn hotter": [hotter] if hotter else [], "Tables": others}
    return {heading: tables for heading, tables in sections.items() if tables}


def _first_and_last(table: pl.DataFrame) -> pl.DataFrame:
    """Of measurements during training the first and the last, as means over seeds; other tables as they are."""
    if "step" not in table.columns:
        return table
    step = pl.col("step")
    ends = table.filter((step == step.min().over("method", "seed")) | (step == step.max().over("method", "seed")))
    measured = [name for name, dtype in table.schema.items() if dtype == pl.Float64]
    means = ends.group_by("method", "subset", "step", maintain_order=True).agg(pl.col(measured).mean())
    return means.sort(pl.col("method").cast(pl.Enum(in_order(means["method"]))), "subset", "step")


def headline_table(headline: Headline, dataset: str) -> dict[str, Any]:
    """The results on one dataset: its column heads, and a row per policy."""
    metrics = headline.metrics[dataset]
    rows = [
        {
            "policy": label(method),
            "detail": training(seed, step),
            "cells": [headline.cell((method, seed, step), dataset, metric) for metric in metrics],
            "base": method == BASE,
        }
        for method, seed, step in headline.policies
    ]
    main = [metric in main_metrics(metrics) for metric in metrics]
    return {"dataset": dataset, "metrics": [metric_name(metric) for metric in metrics], "main": main, "rows": rows}


def readable(frame: pl.DataFrame) -> pl.DataFrame:
    """A table for the page: names as words, methods by their labels, fractions to three digits."""
    columns: dict[str, list[Any]] = {}
    for name, column in zip(frame.columns, frame.iter_columns(), strict=True):
        head = name.replace("_", " ").capitalize() if name == name.lower() else name
        if name == "method":
            columns[head] = [label(value) for value in column]
        elif column.dtype.is_float():
            columns[head] = [None if value is None else _number(value) for value in column]
        else:
            counts = column.dtype.is_integer() and name not in _NAMES_OF
            columns[head] = [f"{value:,}" if counts and value is not None else value for value in column]
    return pl.DataFrame(columns, strict=False)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def claims_table(claims: pl.DataFrame) -> dict[str, Any]:
    """The table "claims": its column heads, and the primary endpoints and other claims with their rows."""
    return {"heads": HEADS, "tables": list(claim_tables(claims))}


def cost_table(costs: pl.DataFrame) -> dict[str, Any]:
    """Seconds of all stages, and a row for each part of a stage; parts that occur several times are added up.

    A stage's total holds its other parts, but not its imports.

    Args:
        costs: stage, part, seconds, tokens (null if none), max_rss_mib.
    """
    seconds, tokens, memory = pl.col("seconds"), pl.col("tokens"), pl.col("max_rss_mib")
    timed = seconds.filter(tokens.is_not_null()).sum()
    speed = pl.when(timed > 0).then(tokens.sum() / timed)
    groups = costs.group_by("stage", "part").agg(seconds.sum(), times=pl.len(), speed=speed, memory=memory.max())
    parts = groups.sort("stage", "part")
    longest = max([1e-9, *parts["seconds"]])
    whole = parts.filter(pl.col("part").is_in(_WHOLE))["seconds"].sum()
    rows = parts.with_columns(pl.col("part").replace("total", "total without imports"), share=100 * seconds / longest)
    return {"seconds": whole, "rows": rows.rows(named=True)}


def sample_choices(samples: Sequence[Sample]) -> dict[str, list[str]]:
    """The values that samples can be filtered by: dataset, policy and verdict."""
    answers = [answer for sample in samples for answer in sample.responses.items()]
    return {
        "dataset": list(dict.fromkeys(sample.dataset for sample in samples)),
        "policy": list(dict.fromkeys(policy for policy, _ in answers)),
        "verdict": sorted({response.verdict for _, responses in answers for response in responses}),
    }


_SEEDS = "Means over training seeds ± their standard deviation, after the last step."
# The headline names this kind of classes differently.
_CLASSES = pl.col("classes").replace("skeletons", "calculations")
# Of more, the page shows classes among so many right answers.
_RIGHT = 4


def further_tables(tables: Mapping[str, pl.DataFrame]) -> dict[str, Shown]:
    """Title, caption and text of each table of `FURTHER` that compares a policy with the base, by its name.

    Args:
        tables: the tables of `FURTHER`, by name.
    """
    compared = {name: table for name, table in tables.items() if set(table["method"]) - {BASE, BASE_ITSELF}}
    shown = {
        name: (title, caption, show(compared[name]))
        for name, (title, caption, show) in _TABLES.items()
        if name in compared
    }
    return {name: table for name, table in shown.items() if table[2].height}


def _crossing(table: pl.DataFrame) -> pl.DataFrame:
    """Cells "k [low, high]", one for each seed; "> K" where the curves do not cross up to K."""
    cells: dict[tuple[str, str], list[str]] = {}
    for row in table.sort("dataset", "seed").iter_rows(named=True):
        k, low, high = (row[name] or f"> {row['up_to']}" for name in ("k", "low", "high"))
        cells.setdefault((row["method"], row["dataset"]), []).append(f"{k} [{low}, {high}]")
    return _grid({place: "; ".join(texts) for place, texts in cells.items()})


def _hotter(table: pl.DataFrame) -> pl.DataFrame:
    """A row for each temperature; the last column is about the temperatures that the halves chose."""
    rows = []
    for row in table.iter_rows(named=True):
        here, judged = (
            f"{points(row[value])} {interval((row[low], row[high]))}"
            for value, low, high in (("difference", "low", "high"), ("judged", "judged_low", "judged_high"))
        )
        answer = f"{'recovers' if row['recovers'] else 'does not recover'}: {judged}" if row["chosen"] else "not chosen"
        shown_as = f"pass@{row['k']} {percent(row['value'])} %"
        rows.append((label(row["method"]), row["dataset"], f"{row['temperature']:g}", shown_as, here, answer))
    heads = ("Policy", "Dataset", "Temperature", "Solved", "Less the base [95 %]", "Judged on the other half [95 %]")
    return pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String), orient="row")


def _rarefied(table: pl.DataFrame) -> pl.DataFrame:
    """The largest m up to `_RIGHT` of each dataset and kind of class; without answers where right ones are alike."""
    differ = (pl.col("value").max() > 1.0).over("dataset", "classes")
    largest = table.filter(pl.col("m") <= _RIGHT, (pl.col("classes") != "answers") | differ)
    largest = largest.filter(pl.col("m") == pl.col("m").max().over("dataset", "classes")).sort("dataset", "classes")
    column = pl.format("{} {} in {} ({} questions)", "dataset", _CLASSES, "m", "prompts")
    return _grid(_means(largest.with_columns(column=column)))


def _split(table: pl.DataFrame) -> pl.DataFrame:
    part = pl.col("part").str.to_titlecase()
    column = pl.format("{} {}: {}", "dataset", _CLASSES, part)
    return _grid(_means(table.sort("dataset", "classes", maintain_order=True).with_columns(column=column)))


def _moved(table: pl.DataFrame) -> pl.DataFrame:
    """Shares of questions with a lower and a higher solve rate than under the base, in per cent."""
    before, after = pl.col("base_percent"), pl.col("policy_percent")
    prompts = pl.col("prompts")
    shares = table.group_by("dataset", "method", "seed", maintain_order=True).agg(
        lower=100 * prompts.filter(after < before).sum() / prompts.sum(),
        higher=100 * prompts.filter(after > before).sum() / prompts.sum(),
    )
    long = shares.unpivot(["lower", "higher"], index=["dataset", "method", "seed"], variable_name="part")
    column = pl.format("{} {}", "dataset", "part")
    return _grid(_means(long.sort("dataset", maintain_order=True).with_columns(column=column), digits=1))


def _means(rows: pl.DataFrame, digits: int = 2) -> dict[tuple[str, str], str]:
    """The mean of `value` over seeds by method and `column`, in order of the rows."""
    groups = rows.group_by("method", "column", maintain_order=True)
    cells = groups.agg(mean=pl.col("value").mean(), sd=pl.col("value").std())
    return {
        (method, column): f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")
        for method, column, mean, sd in cells.iter_rows()
    }


def _grid(cells: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """A row for each method, a column for each second name, in order."""
    columns = list(dict.fromkeys(column for _, column in cells))
    rows = [
        [label(method), *(cells.get((method, name), "-") for name in columns)]
        for method in in_order(key for key, _ in cells)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(["Policy", *columns], pl.String), orient="row")


_TABLES: dict[str, tuple[str, str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "collapse": (
        "The diagnosis of each policy",
        "By the rule and in the words of dphrl diagnose (docs/diagnose.md), on the policies after their last step. From"
        " tables/collapse.parquet.",
        lambda table: table.select(
            pl.col("method").map_elements(label, return_dtype=pl.String).alias("Policy"),
            pl.col("dataset").alias("Dataset"),
            pl.col("text").alias("Diagnosis"),
        ),
    ),
    "hotter": (
        "Sharpened or collapsed?",
        "Each policy after its last step, at higher temperatures (evaluate.hotter); differences in points. Each half"
        " of the questions chooses the best temperature, which is judged on the other half. A policy whose coverage"
        " fell is sharpened where that recovers it; else the diagnosis stays. From tables/hotter.parquet.",
        _hotter,
    ),
    "crossing": (
        "Where pass@k falls below the base's",
        "The smallest k at which a policy's pass@k is below the base's, with its interval over questions, for each"
        " training seed; > K: at no k up to K. From tables/crossing.parquet.",
        _crossing,
    ),
    "rarefied": (
        "Diversity at equal numbers of right answers",
        "The expected number of different ones among 2 or 4 right answers (the number in the column's name), over the"
        f" questions of which every policy has as many. {_SEEDS} From tables/rarefied.parquet.",
        _rarefied,
    ),
    "diversity_split": (
        "What lost diversity consists of",
        "How many fewer different answers a question gets than from the base: all = right + wrong; right = narrowing"
        f" (at an equal number of right answers) + rest. Negative: more. {_SEEDS} From tables/diversity_split.parquet.",
        _split,
    ),
    "transitions": (
        "Questions whose solve rate moves",
        "Per cent of the questions whose solve rate, in the classes 0, up to 25, 50, 75, below 100 and 100 %, is lower"
        " and higher than under the base. A rate is of half of a question's samples. What the base against itself moves"
        f" is chance. {_SEEDS} From tables/transitions.parquet.",
        _moved,
    ),
}
FURTHER = tuple(_TABLES)
"""Tables over all policies that the page shows as tables."""
