"""The second registration (docs/decisions/second-registration.md): its counts from finished runs, and its tables.

    .venv/bin/python dev/benchmarks/registered.py collect docs/worked-example/counts.parquet results/demo-full ...
    .venv/bin/python dev/benchmarks/registered.py tables docs/worked-example/counts.parquet

The file has a row for each question of each policy that was evaluated, so that all tables follow from it. Each table
has the interval and p that were registered (`registered_interval.py`), then those of `dphrl.evaluation.interval`, and
the p of an exact permutation test over trainings.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from registered_interval import Registered, at_mean, covered_at_mean, registered
from scipy.stats import beta, false_discovery_control

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.frontier import drawn_again, of_trainings
from dphrl.evaluation.interval import Estimate, Questions, difference, holm, of_draws, permutation_p
from dphrl.evaluation.study import Study
from dphrl.report.methods import label
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
# In an answer to an ambiguous question: how far its "about" reaches.
RADIUS = r"(?i)ABS\(\w+ - \d+\) <= (\d+)"
Floats = NDArray[np.float64]


class Contrast(NamedTuple):
    """A difference of two methods in a column of the counts."""

    run: str
    column: str
    level: str
    method: str
    against: str


class Both(NamedTuple):
    """A difference as it was registered, and by the interval of the project since 0.6.

    Attributes:
        permutation: p of the exact permutation test over trainings.
        trainings: their numbers, without that of the base.
    """

    registered: Registered
    now: Estimate
    permutation: float
    trainings: tuple[int, ...]


def collect(runs: list[Path], out: Path, counts_of: Callable[[Path], Iterator[pl.DataFrame]], order: list[str]) -> None:
    """Add the counts of all policies of the runs; what the file has of them stays as it is.

    Args:
        counts_of: the tables of a run.
        order: columns that name a row, and that the rows are sorted by.

    Raises:
        SystemExit: a folder has no evaluated policy; the file is as it was.
    """
    parts = [pl.read_parquet(out)] if out.exists() else []
    for run in runs:
        counts = list(counts_of(run))
        if not counts:
            sys.exit(f"{run}: no policy is evaluated in this folder. Name a finished run, such as results/demo-full")
        parts += counts
    pl.concat(parts).unique(order, keep="first").sort(order).write_parquet(out, compression_level=19)


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

    def difference(self, contrast: Contrast) -> Both:
        """A contrast with both intervals."""
        return both(self.values(contrast.run, contrast.column, contrast.level), contrast.method, contrast.against)

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


def both(values: Mapping[str, Floats], method: str, against: str, clusters: ArrayLike | None = None) -> Both:
    """A difference of two methods from (trainings, questions) values of all."""
    ours, theirs = values[method], values[against]
    questions = Questions(np.ones(ours.shape[1]), clusters)
    return Both(
        registered(values, questions, method, against),
        difference([ours], [theirs], [questions]),
        permutation_p(ours.mean(axis=1), theirs.mean(axis=1)),
        tuple(len(rows) for rows in (ours, theirs) if rows is not values["base"]),
    )


def contrasts(names: Sequence[str], measured: Sequence[Both], correction: str, units: Sequence[float] = ()) -> None:
    """Print a family of differences.

    Args:
        correction: "Holm", "BH" (Benjamini and Hochberg 1995) or "uncorrected".
        units: 100 for points, 1 for counts; none: points.
    """
    corrections: dict[str, Callable[[Sequence[float]], Floats]] = {"Holm": holm, "BH": _false_discoveries}
    correct = corrections.get(correction, np.array)
    level = 0.05 / len(names) if correction == "Holm" else 0.05
    before, now = (
        correct([contrast.registered.p for contrast in measured]),
        correct([contrast.now.p for contrast in measured]),
    )
    lines = []
    for name, contrast, unit, *p in zip(names, measured, units or [100.0] * len(names), before, now, strict=True):
        digits = 1 if unit == 100.0 else 2
        value, *ends = (
            f"{unit * end:+.{digits}f}"
            for end in (contrast.now.value, *contrast.registered.interval, *contrast.now.interval(0.95))
        )
        parts = ", ".join(f"{unit * part.half(0.05):.{digits}f}" for part in contrast.now.parts)
        lines.append([
            name, ", ".join(map(str, contrast.trainings)), f"{value} [{ends[0]}, {ends[1]}]", shown_p(p[0]),
            f"{unit * contrast.registered.detectable(level):.{digits}f}",
            f"[{ends[2]}, {ends[3]}]", parts, shown_p(p[1]), shown_p(contrast.permutation),
        ])  # fmt: skip
    head = ["", "trainings", "registered [95 %]", f"p ({correction})", "finds", "now [95 %]"]
    head += ["trainings, questions", f"p ({correction})", "permutation p"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def _false_discoveries(p: Sequence[float]) -> Floats:
    corrected = np.array(p, dtype=float)
    tested = ~np.isnan(corrected)
    corrected[tested] = false_discovery_control(corrected[tested])
    return corrected


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
    measured = [counts.difference(Contrast(run, "covered", "ambiguous", *pair)) for pair in PRIMARY]
    contrasts([" - ".join(map(label, pair)) for pair in PRIMARY], measured, "Holm")


def key_secondary(counts: Counts) -> None:
    """Equal mean, and the reverse KL, by Holm."""
    study = counts.study("demo-full-paths", EvaluateConfig(datasets=("in_domain",)))
    base, paths = study.policies[0], of_trainings(study.policies)
    inside = (base.rows["level"] == "ambiguous").to_numpy()
    questions = Questions(np.ones(len(inside)))
    drawn = drawn_again(base, questions, study.seed)
    values = {
        method: np.stack([at_mean(path, inside, K, EQUAL) for path in of_method]) for method, of_method in paths.items()
    } | {"base": np.zeros((1, len(inside)))}
    again = {
        method: np.stack([covered_at_mean(path, drawn, inside, K, EQUAL) for path in of_method])
        for method, of_method in paths.items()
    }
    measured = []
    for pair in GAINS:
        ours, theirs = (again[method] for method in pair)
        measured.append(both(values, *pair)._replace(now=of_draws(ours, theirs, questions)))
    measured.append(counts.difference(Contrast("demo-full", "covered", "ambiguous", "dph_f", "rkl_k2")))
    names = [f"{label(method)} - {label(against)} at equal mean" for method, against in GAINS]
    contrasts([*names, f"DPH-F - {label('rkl_k2')}"], measured, "Holm")


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
    runs = set(counts.rows["run"])
    asked = [contrast for contrast in asked if contrast.run in runs]
    names, units = [], []
    for contrast in asked:
        counted = contrast.column in ("readings", "styles")
        where = contrast.column if counted else f"pass@16, {contrast.level}"
        where += "" if contrast.run == run else f", {contrast.run.removeprefix('demo-full-')}"
        names.append(f"{label(contrast.method)} - {label(contrast.against)}, {where}")
        units.append(1.0 if counted else 100.0)
    contrasts(names, [counts.difference(contrast) for contrast in asked], "BH", units)


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
    parser.add_argument("what", choices=["collect", "tables"])
    parser.add_argument("counts", type=Path, help="the file of counts")
    parser.add_argument("runs", type=Path, nargs="*", help="folders of finished runs")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, arguments.counts, of_run, ["run", "method", "seed", "step", "question"])
    else:
        tables(arguments.counts)
