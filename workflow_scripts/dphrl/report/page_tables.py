"""The tables of the page below its first screen."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from dphrl.evaluation.names import BASE_ITSELF, STRATA
from dphrl.report.counts import FOUND, REJECTED, SHARED
from dphrl.report.headline import interval_text
from dphrl.report.methods import in_order, label
from dphrl.report.text_tables import Cell, Table
from dphrl.text import interval, percent, points

READ = ("claims", "collapse", "comparisons", "datasets", "headline", "hotter", "keep_explore", "passk", "rarefied")
"""Tables of the run that the page reads."""
_SOLVES: Final = ("Never", "Up to 1/8 of samples", "1/8 to 1/2", "More than 1/2")
"""The `STRATA` in words."""
# Of more, the page shows classes among so many right answers.
_RIGHT: Final = 4
_SUBSETS: Final = {
    "": "training prompts",
    "pef": "near-perfect prompts (D_pef)",
    "exp": "exploration prompts (D_exp)",
    "dropped": "dropped prompts",
}


def partition_sizes(partitions: Iterable[pl.DataFrame]) -> dict[str, str]:
    """The numbers of training prompts, in all and in each subset, of the final partitions: one number, or the range."""
    counts = [{"": prompts.height, **dict(prompts.group_by("subset").len().iter_rows())} for prompts in partitions]
    if not counts:
        return {}
    sizes = {words: sorted({count.get(name, 0) for count in counts}) for name, words in _SUBSETS.items()}
    return {words: " to ".join(f"{size:,}" for size in dict.fromkeys((of[0], of[-1]))) for words, of in sizes.items()}


def diagnoses(collapse: pl.DataFrame, order: Sequence[str]) -> list[Table]:
    """The diagnosis of each policy in full, by dataset in this order; or nothing."""
    places = {name: place for place, name in enumerate(in_order(collapse["method"]))}
    judged = sorted(
        collapse.iter_rows(named=True), key=lambda row: (order.index(row["dataset"]), places[row["method"]])
    )
    rows = [(label(row["method"]), row["dataset"], row["text"]) for row in judged]
    caption = "By the rule and in the words of dphrl diagnose, after the last step."
    return [Table("Diagnosis of each policy", caption, ["Policy", "On", "Diagnosis"], rows)] if rows else []


def where_lost(comparisons: pl.DataFrame, dataset: str) -> list[Table]:
    """The difference of each policy to the base in each stratum of `names.STRATA`, over all levels; or nothing."""
    parts = pl.col("metric").str.split("@").list
    lost = comparisons.with_columns(stratum=parts.first(), k=parts.last())
    lost = lost.filter(pl.col("stratum").is_in(STRATA), level="", dataset=dataset, against=BASE_ITSELF)
    if lost.is_empty():
        return []
    methods, rows = in_order(lost["method"]), list[Sequence[Cell]]()
    for stratum, words in zip(STRATA, _SOLVES, strict=True):
        if by_method := {row["method"]: row for row in lost.filter(stratum=stratum).iter_rows(named=True)}:
            ordered = [by_method[name] for name in methods]
            cells = [(interval_text(row), f"{row['difference'] * row['questions']:+.1f} questions") for row in ordered]
            rows.append([words, f"{ordered[0]['questions']:,}", *cells])
    caption = (
        f"pass@{lost['k'][0]} on {dataset} less the base's, in points, by the share of the base's samples that are"
        " right. One half of them decides this, the other half measures the base, so that luck is no loss. The numbers"
        " of questions lost or gained nearly add up to the whole difference."
    )
    return [Table("Where the loss sits", caption, ["Base solves", "Questions", *map(label, methods)], rows)]


def hotter_table(hotter: pl.DataFrame) -> list[Table]:
    """A row for each temperature, or nothing; the last column is about the temperatures that the halves chose."""
    rows = []
    for row in hotter.iter_rows(named=True):
        here, judged = (
            f"{points(row[value])} {interval((row[low], row[high]))}"
            for value, low, high in (("difference", "low", "high"), ("judged", "judged_low", "judged_high"))
        )
        answer = f"{'recovers' if row['recovers'] else 'does not recover'}: {judged}" if row["chosen"] else "not chosen"
        solved = f"pass@{row['k']} {percent(row['value'])} %"
        rows.append((label(row["method"]), row["dataset"], f"{row['temperature']:g}", solved, here, answer))
    caption = (
        "At higher temperatures (evaluate.hotter), in points. Each half of the questions chooses the best temperature,"
        " which is judged on the other half. A policy whose coverage that recovers is sharpened, not collapsed."
    )
    heads = ["Policy", "On", "Temperature", "Solved", "Less the base [95 %]", "Judged on the other half [95 %]"]
    return [Table("Sharpened or collapsed?", caption, heads, rows)] if rows else []


def variety_table(rarefied: pl.DataFrame, order: Sequence[str]) -> list[Table]:
    """Classes among equal numbers of right answers, the largest of each dataset and kind of class; or nothing."""
    # Where all right answers of a question are alike, there is nothing to count.
    differ = (pl.col("value").max() > 1.0).over("dataset", "classes")
    largest = rarefied.filter(pl.col("m") <= _RIGHT, (pl.col("classes") != "answers") | differ)
    largest = largest.filter(pl.col("m") == pl.col("m").max().over("dataset", "classes"))
    place = pl.col("dataset").cast(pl.Enum(order))
    methods = in_order(largest["method"])
    means = largest.pivot(
        "method",
        on_columns=methods,
        index=["dataset", "classes", "m", "prompts"],
        values="value",
        aggregate_function="mean",
    )
    rows: list[Sequence[Cell]] = [
        [
            (f"{dataset}: {classes}", f"of {m} right answers to each of {prompts:,} questions"),
            *("-" if mean is None else f"{mean:.2f}" for mean in values),
        ]
        for dataset, classes, m, prompts, *values in means.sort(place, "classes").iter_rows()
    ]
    caption = "Different ones among equally many right answers to a question, on average; means over trainings."
    heads = ["", *map(label, methods)]
    return [Table("Variety at equal numbers of right answers", caption, heads, rows)] if rows else []


def training_table(use: pl.DataFrame | None) -> list[Table]:
    """What a training of each method used, from `counts.training_use`; nothing without trainings."""
    if use is None:
        return []
    order = pl.col("method").cast(pl.Enum(in_order(use["method"])))
    heads = ["Method", "Trainings", "Steps", "Prompts", "Rollouts", "Tokens drawn", "Tokens stored", "Seconds"]
    rows = [[label(method), *(f"{value:,.0f}" for value in values)] for method, *values in use.sort(order).iter_rows()]
    caption = (
        "Means over the trainings of a method. Drawn tokens include those that dynamic sampling left out; stored tokens"
        " are of rehearsed responses. Seconds compare where nothing else ran on the machine."
    )
    return [Table("What a training uses", caption, heads, rows)]


def data_table(data: pl.DataFrame) -> Table:
    """The table "datasets": what became of the rows of each file."""
    kinds = {"Rejected": REJECTED, "Findings in golds": FOUND, "Also training prompts": SHARED}
    rows = []
    for row in data.iter_rows(named=True):
        cells = [row["dataset"], *(f"{row[name]:,}" for name in ("rows", "prompts", "kept"))]
        for names in kinds.values():
            counts = {name.removeprefix("overlap_").replace("_", " "): row[name] for name in names}
            cells.append(", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "-")
        rows.append(cells)
    caption = "Rows are prompts or rejected. Prompts without a usable gold answer are left out of all results."
    return Table("Rows of each dataset", caption, ["Dataset", "Rows", "Prompts", "Gold kept", *kinds], rows)


# The parts of a stage that are all of its time; the others are parts of the total.
_WHOLE: Final = ("imports", "total")


class StageCost(NamedTuple):
    """The cost of a stage: seconds, where it starts and how long it is on a bar of 100, tokens per second, MiB."""

    name: str
    seconds: float
    start: float
    share: float
    speed: str
    memory: float


def costs(timings: Mapping[str, pl.DataFrame]) -> list[StageCost]:
    """The cost of each stage in the order of the run.

    Args:
        timings: by the name of the stage (`scores_of_samples`): part, seconds, tokens (null if none) and max_rss_mib of
            its jobs.
    """
    seconds, timed = pl.col("seconds"), pl.col("tokens").is_not_null()
    sums = pl.DataFrame(
        frame.select(
            whole=seconds.filter(pl.col("part").is_in(_WHOLE)).sum(),
            speed=pl.col("tokens").sum() / seconds.filter(timed).sum(),
            memory=pl.col("max_rss_mib").max().fill_null(0.0),
        ).row(0, named=True)
        for frame in timings.values()
    )
    if sums.is_empty():
        return []
    share = 100 * pl.col("whole") / pl.col("whole").sum()
    placed = sums.select("whole", (share.cum_sum() - share).alias("start"), share.alias("share"), "speed", "memory")
    return [
        StageCost(
            name.replace("_", " ").capitalize(), whole, start, part, f"{speed:,.0f}" if speed > 0 else "-", memory
        )
        for name, (whole, start, part, speed, memory) in zip(timings, placed.iter_rows(), strict=True)
    ]
