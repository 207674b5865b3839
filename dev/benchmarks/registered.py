"""The second registration (docs/decisions/second-registration.md): its counts from finished runs, and its tables.

    .venv/bin/python dev/benchmarks/registered.py collect docs/worked-example/counts.parquet results/demo-full ...
    .venv/bin/python dev/benchmarks/registered.py tables docs/worked-example/counts.parquet
    .venv/bin/python dev/benchmarks/registered.py coverage docs/worked-example/counts.parquet     # of the intervals
    .venv/bin/python dev/benchmarks/registered.py figure docs/worked-example/counts.parquet       # strip.svg

The file has a row for each question of each policy that was evaluated, so that all tables follow from it.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import beta, false_discovery_control
from world import RADIUS

from dphrl.config.blocks.evaluation import ClaimsConfig, EndpointConfig, EvaluateConfig
from dphrl.evaluation.comparisons import at_equal_mean
from dphrl.evaluation.crossed import Crossed, Difference, Questions, detectable, holm
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.methods import label
from dphrl.evaluation.names import UNTRAINED
from dphrl.evaluation.study import Study
from dphrl.report import figures
from dphrl.report.figures import theme
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import PolicyName
from dphrl.toy.questions import RADII

N, K, COVERED, EQUAL = 16, 16, 0.477, 0.55
METHODS = (
    "grpo",
    "exp_only",
    "dph_f",
    "dph_js",
    "rkl_k3",
    "rkl_k2",
    "replay",
    "fkl_all",
    "dph_f_published",
    "dph_js_published",
)
PRIMARY = (("grpo", "base"), ("dph_f", "grpo"), ("dph_js", "grpo"), ("dph_js", "exp_only"))
GAINS = PRIMARY[1:3]
Floats = NDArray[np.float64]


class Contrast(NamedTuple):
    """A difference of two methods in a column of the counts."""

    run: str
    column: str
    level: str
    method: str
    against: str


def collect(runs: list[Path], out: Path, counts_of: Callable[[Path], Iterator[pl.DataFrame]], order: list[str]) -> None:
    """Write the counts of all policies of the runs; counts of other runs in the file stay.

    Args:
        counts_of: the tables of a run.
        order: columns that the rows are sorted by.

    Raises:
        SystemExit: a folder has no evaluated policy; the file is as it was.
    """
    parts = [pl.read_parquet(out).filter(~pl.col("run").is_in([run.name for run in runs]))] if out.exists() else []
    for run in runs:
        counts = list(counts_of(run))
        if not counts:
            sys.exit(f"{run}: no policy is evaluated in this folder. Name a finished run, such as results/demo-full")
        parts += counts
    pl.concat(parts).sort(order).write_parquet(out, compression_level=19)


def of_run(run: Path) -> Iterator[pl.DataFrame]:
    """The counts of each policy of a run on the in-domain questions, which are numbered by their ids."""
    for path in sorted((run / "evaluation").rglob("in_domain.parquet")):
        policy = str(path.parent.relative_to(run / "evaluation"))
        name = PolicyName.parse(policy)
        drawn = read_table(run / f"rollouts/{policy}/in_domain.evaluate/0.parquet", "rollouts")
        radius = pl.col("text").str.extract(RADIUS).cast(pl.Int64, strict=False)
        sampled = drawn.filter(pl.col("sample_index") >= 0).group_by("prompt_id")
        readings = sampled.agg(readings=radius.filter(radius.is_in(list(RADII))).n_unique().cast(pl.UInt8))
        rows = read_table(path, "evaluation").sort("prompt_id").join(readings, on="prompt_id", maintain_order="left")
        yield rows.with_row_index("question").select(
            *(pl.lit(value, dtype).alias(key) for key, value, dtype in (
                ("run", run.name, pl.String), ("method", name.method, pl.String),
                ("seed", name.seed, pl.Int32), ("step", name.step, pl.Int32))),
            pl.col("question").cast(pl.UInt16), "level", pl.col("c").cast(pl.UInt8),
            pl.col("greedy_correct").alias("greedy"), pl.col("distinct_styles").cast(pl.UInt8).alias("styles"),
            "readings",
        )  # fmt: skip


class Counts:
    """The counts with the columns that are compared: `covered` is pass@16, `mean` the share of right samples."""

    def __init__(self, path: Path) -> None:
        solved = pl.Series(np.asarray(pass_at_k(np.full(N + 1, N), np.arange(N + 1), np.full(N + 1, K))))
        self.rows = pl.read_parquet(path).with_columns(
            covered=pl.col("c").replace_strict(range(N + 1), solved),
            mean=pl.col("c") / N,
            greedy=pl.col("greedy").cast(float),
        )
        last = pl.col("step") == pl.col("step").max().over("run", "method", "seed")
        self.last = self.rows.filter(last)

    def values(self, run: str, column: str, level: str) -> dict[str, Floats]:
        """(trainings, questions) of a column by method, after the last step."""
        here = self.last.filter(pl.col("run") == run, pl.col("level").str.contains(f"^({level})$"))
        found: dict[str, list[Floats]] = {}
        for (method, _), rows in here.sort("question").group_by("method", "seed", maintain_order=True):
            found.setdefault(str(method), []).append(rows[column].cast(pl.Float64).to_numpy())
        return {method: np.stack(rows) for method, rows in found.items()}

    def difference(self, one: Contrast) -> Difference:
        """A contrast with the interval of the project: trainings crossed with questions."""
        values = self.values(one.run, one.column, one.level)
        questions = Questions(np.ones(values["base"].shape[1]))
        crossed = Crossed({method: [rows] for method, rows in values.items()}, [questions], UNTRAINED)
        return crossed.difference(one.method, one.against)

    def study(self, run: str, config: EvaluateConfig) -> Study:
        """The run as the package's study, for comparisons at equal mean."""
        rows = self.rows.filter(run=run)
        named = rows.with_columns(
            prompt_id=pl.col("question").cast(pl.String).str.zfill(5),
            dataset=pl.lit("in_domain"),
            n=pl.lit(N, pl.Int32),
            c=pl.col("c").cast(pl.Int32),
        )
        return Study.from_evaluations(named, config, 1)


def table(head: list[str], rows: list[list[str]], align: str) -> None:
    rule = [{"l": "---", "r": "---:"}[side] for side in align]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)), end="\n\n")


def shown_p(p: float) -> str:
    return "-" if np.isnan(p) else f"{p:.3f}".replace("0.000", "< 0.001")


def row_of_comparison(
    name: str, comparison: Mapping[str, Any], p: float, level: float = 0.05, unit: float = 100.0
) -> list[str]:
    """A row of the table "comparisons" under a name, in points or another unit, with its corrected p."""
    digits = 1 if unit == 100.0 else 2
    value, low, high = (f"{unit * comparison[key]:+.{digits}f}" for key in ("difference", "low", "high"))
    return [
        name,
        ", ".join(str(number) for number in (comparison["seeds"], comparison["seeds_against"]) if number),
        f"{value} [{low}, {high}]",
        shown_p(p),
        f"{unit * detectable(comparison['error'], comparison['freedom'], level):.{digits}f}",
    ]


def row(name: str, difference: Difference, p: float, unit: float = 100.0, level: float = 0.05) -> list[str]:
    """The row of a difference that this file computes."""
    low, high = difference.interval(0.95)
    comparison = {
        "difference": difference.value, "low": low, "high": high, "error": difference.error,
        "freedom": difference.freedom, "seeds": difference.seeds[0], "seeds_against": difference.seeds[1],
    }  # fmt: skip
    return row_of_comparison(name, comparison, p, level, unit)


def trainings(counts: Counts, run: str) -> None:
    """Means over trainings with their standard deviation, and the lowest and highest training."""
    columns = (
        ("greedy", "all"),
        ("mean", "all"),
        ("covered", "all"),
        ("covered", "ambiguous"),
        ("covered", "plain"),
        ("covered", "noisy"),
    )
    lines = []
    for method in ("base", *METHODS):
        cells, shown = [], None
        for column, level in (*columns, ("styles", "ambiguous"), ("readings", "ambiguous")):
            values = counts.values(run, column, ".*" if level == "all" else level)
            if method not in values:
                break
            shown, unit = values[method].mean(axis=1), 1.0 if column in ("styles", "readings") else 100.0
            digits = 2 if unit == 1.0 else 1
            spread = f" ± {unit * shown.std(ddof=1):.{digits}f}" if len(shown) > 1 else ""
            cells.append(f"{unit * shown.mean():.{digits}f}{spread}")
            if (column, level) == ("covered", "ambiguous"):
                cells.append(f"{100 * shown.min():.1f}, {100 * shown.max():.1f}" if len(shown) > 1 else "")
        if shown is not None and cells:
            lines.append([label(method), str(len(shown)), *cells])
    head = [
        "policy",
        "trainings",
        "greedy",
        "mean",
        "pass@16",
        "pass@16, ambiguous",
        "lowest, highest",
        "plain",
        "noisy",
        "styles",
        "readings",
    ]
    print(f"## {run}\n")
    table(head, lines, "l" + "r" * (len(head) - 1))


def primary(counts: Counts, run: str) -> None:
    """The four primary contrasts, by Holm."""
    found = [counts.difference(Contrast(run, "covered", "ambiguous", *pair)) for pair in PRIMARY]
    lines = [
        row(" - ".join(map(label, pair)), one, p, level=0.05 / 4)
        for pair, one, p in zip(PRIMARY, found, holm([one.p for one in found]), strict=True)
    ]
    table(["endpoint", "trainings", "difference [95 %]", "p (Holm)", "finds"], lines, "lrrrr")


def key_secondary(counts: Counts) -> None:
    """Equal mean, and the reverse KL, by Holm."""
    ends = tuple(
        EndpointConfig(
            method=method,
            against=against,
            relation="higher",
            metric="pass@16",
            dataset="in_domain",
            level="ambiguous",
            at_mean=EQUAL,
        )
        for method, against in GAINS
    )
    config = EvaluateConfig(datasets=("in_domain",), claims=ClaimsConfig(primary=ends))
    equal = at_equal_mean(counts.study("demo-full-paths", config))
    names = [f"{label(one['method'])} - {label(one['against'])} at equal mean" for one in equal.iter_rows(named=True)]
    kl = counts.difference(Contrast("demo-full", "covered", "ambiguous", "dph_f", "rkl_k2"))
    chances = holm([*equal["p"], kl.p])
    lines = [
        row_of_comparison(name, comparison, p, 0.05 / 3)
        for name, comparison, p in zip(names, equal.iter_rows(named=True), chances, strict=False)
    ]
    lines.append(row(f"DPH-F - {label('rkl_k2')}", kl, chances[-1], level=0.05 / 3))
    table(["key secondary", "trainings", "difference [95 %]", "p (Holm)", "finds"], lines, "lrrrr")


def secondary(counts: Counts) -> None:
    """All other contrasts, by Benjamini and Hochberg."""
    run, level = "demo-full", "ambiguous"
    asked = [
        Contrast(run, "covered", level, "replay", "dph_f"),
        Contrast(run, "covered", level, "fkl_all", "dph_f"),
        Contrast(run, "covered", level, "dph_f_published", "exp_only"),
        Contrast(run, "covered", level, "dph_js_published", "exp_only"),
        *(
            Contrast(decoded, "covered", level, *pair)
            for decoded in ("demo-full-top-p", "demo-full-hot")
            for pair in GAINS
        ),
        *(Contrast(run, column, level, *pair) for column in ("readings", "styles") for pair in GAINS),
        *(Contrast(run, "covered", other, *pair) for other in ("plain", "noisy") for pair in GAINS),
    ]
    known = set(counts.rows["run"])
    asked = [one for one in asked if one.run in known]
    found = [counts.difference(one) for one in asked]
    chances = np.array([one.p for one in found])
    chances[~np.isnan(chances)] = false_discovery_control(chances[~np.isnan(chances)])
    lines = []
    for one, difference, p in zip(asked, found, chances, strict=True):
        counted = one.column in ("readings", "styles")
        where = one.column if counted else f"pass@16, {one.level}"
        name = f"{label(one.method)} - {label(one.against)}, {where}" + (
            "" if one.run == run else f", {one.run.removeprefix('demo-full-')}"
        )
        lines.append(row(name, difference, p, 1.0 if counted else 100.0))
    table(["secondary", "trainings", "difference [95 %]", "p (BH)", "finds"], lines, "lrrrr")


def shares(counts: Counts, run: str) -> None:
    """The share of trainings that keep coverage, with its exact interval (Clopper and Pearson 1934)."""
    lines = []
    for method, rows in counts.values(run, "covered", "ambiguous").items():
        if method in METHODS:
            kept, all_ = int((rows.mean(axis=1) >= COVERED).sum()), len(rows)
            low = beta.ppf(0.025, kept, all_ - kept + 1) if kept else 0.0
            high = beta.ppf(0.975, kept + 1, all_ - kept) if kept < all_ else 1.0
            lines.append([label(method), f"{kept} of {all_}", f"[{100 * low:.0f}, {100 * high:.0f}]"])
    table(["policy", f"trainings at {100 * COVERED:.1f} % or above", "share, %"], lines, "lrr")


def coverage(counts: Counts, population: str, runs: int = 2000) -> None:
    """Share of 95 % intervals that hold the true difference, with trainings and questions as the population.

    A run draws trainings of each method and questions, with replacement; GRPO and D_exp only have at most 5 trainings.

    Args:
        population: a pattern of the runs whose trainings of DPH-F and DPH-JS are drawn; all others are demo-full's.
    """
    values, drawn = counts.values("demo-full", "covered", "ambiguous"), np.random.default_rng(1)
    named = [run for run in counts.rows["run"].unique().sort() if re.fullmatch(population, run)]
    for method in ("dph_f", "dph_js"):
        values[method] = np.concatenate([counts.values(run, "covered", "ambiguous")[method] for run in named])
    print(f"{', '.join(named)}: {len(values['dph_f'])} trainings of DPH-F, {len(values['dph_js'])} of DPH-JS\n")
    pairs = [*PRIMARY[1:], ("dph_f", "base"), ("dph_js", "base"), ("dph_js", "dph_f")]
    truth = {pair: values[pair[0]].mean() - values[pair[1]].mean() for pair in pairs}
    lines = []
    for seeds in (3, 5, 8, 10, 16):
        hits, halves = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0.0)
        for _ in range(runs):
            asked = drawn.integers(0, values["base"].shape[1], size=(values["base"].shape[1],))
            sizes = {"base": 1, "grpo": min(seeds, 5), "exp_only": min(seeds, 5), "dph_f": seeds, "dph_js": seeds}
            some = {
                method: [values[method][drawn.integers(0, len(values[method]), size)][:, asked]]
                for method, size in sizes.items()
            }
            crossed = Crossed(some, [Questions(np.ones(asked.size))], UNTRAINED)
            for pair in pairs:
                low, high = crossed.difference(*pair).interval(0.95)
                hits[pair] += low <= truth[pair] <= high
                halves[pair] += (high - low) / 2 / runs
        lines.append([str(seeds), *(f"{100 * hits[pair] / runs:.1f}" for pair in pairs)])
        lines[-1].append(f"{100 * halves['dph_f', 'grpo']:.1f}")
    head = ["trainings of DPH", *(" - ".join(pair) for pair in pairs), "half-width, dph_f - grpo"]
    table(head, lines, "r" * len(head))


def figure(counts: Counts, run: str, out: Path) -> None:
    """Draw pass@16 on the ambiguous questions: a row for each method, a dot for each training."""
    solved = counts.values(run, "covered", "ambiguous")
    points = [(method, float(value)) for method, rows in solved.items() for value in np.sort(rows.mean(axis=1))]
    rows = theme.with_policy(pl.DataFrame(points, ["method", "value"], orient="row"))
    rows = rows.with_columns(panel=pl.lit("pass@16, ambiguous questions"))
    axis, scale = alt.Axis(format="%", tickCount=5), alt.Scale(domain=[0, 1])
    panel = alt.Chart(rows.drop("method")).mark_point(filled=True, size=90, opacity=0.8).encode(
        x=alt.X("value:Q", title=None, axis=axis, scale=scale),
        y=theme.policy_axis(rows),
        color=theme.policy_colour(rows).legend(None),
        shape=theme.policy_shape(rows).legend(None),
    )  # fmt: skip
    panel = panel.properties(width=420, height={"step": 26})
    chart = theme.faceted(
        panel, rows, "panel", "Trainings of demo-full", 1, rows["panel"].unique().to_list(), figure.__doc__ or ""
    )
    out.write_text(figures.to_svg(chart), encoding="utf-8")


def tables(path: Path) -> None:
    """Print all tables."""
    counts = Counts(path)
    runs: Mapping[str, None] = dict.fromkeys(counts.rows["run"])
    for run in runs:
        trainings(counts, run)
    for run in ("demo-full", "world-2", "world-3"):
        if run in runs:
            print(f"## {run}: primary\n")
            primary(counts, run)
            shares(counts, run)
    if "demo-full-paths" in runs:
        key_secondary(counts)
    secondary(counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "tables", "coverage", "figure"])
    parser.add_argument("counts", type=Path, help="the file of counts")
    parser.add_argument("runs", type=Path, nargs="*", help="folders of finished runs")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, arguments.counts, of_run, ["run", "method", "seed", "step", "question"])
    elif arguments.what == "tables":
        tables(arguments.counts)
    elif arguments.what == "figure":
        figure(Counts(arguments.counts), "demo-full", arguments.counts.with_name("strip.svg"))
    else:
        for population in ("demo-full", r"draws-\d+"):
            coverage(Counts(arguments.counts), population)
