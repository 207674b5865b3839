"""Tables of the report page about what a policy gains and loses: crossings, diversity, transitions."""

from collections.abc import Callable, Mapping

import polars as pl

from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.layout.methods import in_order, label

Shown = tuple[str, str, pl.DataFrame]
_SEEDS = "Means over training seeds ± their standard deviation, after the last step."
# A kind of classes that the headline has under another name.
_CLASSES = pl.col("classes").replace("skeletons", "calculations")
# Of more, the page shows classes among so many right answers.
_RIGHT = 4


def further_tables(tables: Mapping[str, pl.DataFrame]) -> list[Shown]:
    """Title, caption and text of each table of `FURTHER` that compares a policy with the base.

    Args:
        tables: the tables of `FURTHER`, by name.
    """
    compared = {name: table for name, table in tables.items() if set(table["method"]) - {BASE, BASE_ITSELF}}
    return [
        (title, caption, show(compared[name])) for name, (title, caption, show) in _TABLES.items() if name in compared
    ]


def _crossing(table: pl.DataFrame) -> pl.DataFrame:
    """Cells "k [low, high]", one for each seed; "> K" where the curves do not cross up to K."""
    cells: dict[tuple[str, str], list[str]] = {}
    for row in table.sort("dataset", "seed").iter_rows(named=True):
        k, low, high = (row[name] or f"> {row['up_to']}" for name in ("k", "low", "high"))
        cells.setdefault((row["method"], row["dataset"]), []).append(f"{k} [{low}, {high}]")
    return _grid({place: "; ".join(texts) for place, texts in cells.items()})


def _rarefied(table: pl.DataFrame) -> pl.DataFrame:
    """The largest m up to `_RIGHT` of each dataset and kind of class; answers are left out: right ones are alike."""
    found = table.filter(pl.col("m") <= _RIGHT, pl.col("classes") != "answers")
    found = found.filter(pl.col("m") == pl.col("m").max().over("dataset", "classes")).sort("dataset", "classes")
    column = pl.format("{} {} in {} ({} questions)", "dataset", _CLASSES, "m", "prompts")
    return _grid(_means(found.with_columns(column=column)))


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
        [label(one), *(cells.get((one, name), "-") for name in columns)] for one in in_order(key for key, _ in cells)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(["Policy", *columns], pl.String), orient="row")


_TABLES: dict[str, tuple[str, str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
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
        " and higher than under the base. What the base against itself moves is chance."
        f" {_SEEDS} From tables/transitions.parquet.",
        _moved,
    ),
}
FURTHER = tuple(_TABLES)
"""Tables over all policies that the page shows as tables."""
