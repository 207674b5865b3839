"""The arena (docs/decisions/arena.md): its counts from finished runs, and its tables.

    .venv/bin/python dev/benchmarks/arena.py collect docs/arena.parquet results/arena ...
    .venv/bin/python dev/benchmarks/arena.py tables docs/arena.parquet

The file has a row for each question of each policy that was evaluated, so that all tables follow from it. The policies
of a run <name>-hot, drawn at a higher temperature, stand with those of <name>, whose base they are compared with.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from registered import Floats, collect, shown_p, table

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import BOUGHT, BOUGHT_SPLIT, Paths, paths
from dphrl.evaluation.interval import of_draws, permutation_p
from dphrl.evaluation.study import Study
from dphrl.report.methods import in_order, label
from dphrl.report.page_tables import where_lost
from dphrl.report.text_tables import markdown_table
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import BASE, PolicyName

DATASET, LEVEL, SAMPLES, HOT = "in_domain", "ambiguous", 8, "-hot"
CONFIG = EvaluateConfig(datasets=(DATASET,), k=(1, 2, 4, 8))
# Mixtures are compared with mixtures, each other method with GRPO.
LIKE_WITH_LIKE = {"dph_f-mixed": "grpo-mixed"}
SHOWN = {"best_mean": "best mean", "gain@0.9": "at 90 %", "gain@0.8": "at 80 %", "gain@0.7": "at 70 %"}


def of_run(run: Path) -> Iterator[pl.DataFrame]:
    """The counts of each policy of a run. Questions are numbered by their ids.

    Hotter policies are checkpoints with names such as `grpo_t13_step16`: their method is `grpo_t13`.
    """
    for path in sorted((run / "evaluation").rglob(f"{DATASET}.parquet")):
        name = PolicyName.parse(str(path.parent.relative_to(run / "evaluation")))
        if run.name.endswith(HOT) and name == BASE:
            continue
        method, _, step = name.method.partition("_step")
        rows = read_table(path, "evaluation").sort("prompt_id").with_row_index("question")
        yield rows.select(
            run=pl.lit(run.name.removesuffix(HOT)), method=pl.lit(method),
            seed=pl.lit(name.seed, pl.Int32), step=pl.lit(int(step or name.step), pl.Int32),
            question=pl.col("question").cast(pl.UInt16), level="level", c=pl.col("c").cast(pl.UInt8),
        )  # fmt: skip


def study_of(counts: pl.DataFrame) -> Study:
    """The counts of a run as the package's study."""
    evaluations = counts.select(
        "method", "seed", "step", "level", prompt_id=pl.col("question").cast(pl.String).str.zfill(5),
        dataset=pl.lit(DATASET), n=pl.lit(SAMPLES, pl.Int32), c=pl.col("c").cast(pl.Int32),
        greedy_correct=pl.lit(None, pl.Boolean),
    )  # fmt: skip
    return Study.from_evaluations(evaluations, CONFIG, 1)


def arms(study: Study, followed: Paths) -> None:
    """Of each arm the accuracy bought, without and with split draws, and where its trainings end."""
    last: dict[str, list[tuple[float, float]]] = {}
    for policy in study.last_steps().policies:
        inside = (policy.rows["level"] == LEVEL).to_numpy()
        solved = policy.pass_at([SAMPLES])[inside, 0].mean()
        last.setdefault(policy.key.method, []).append((policy.solve_rates.mean(), solved))
    lines = []
    for method in in_order(followed.trainings):
        trainings = followed.trainings[method]
        values = pl.DataFrame([training.values for training in trainings])
        ends = pl.DataFrame(last.get(method, []), schema=["mean", "solved"], orient="row")
        columns = [*values.select(BOUGHT, BOUGHT_SPLIT, *SHOWN), *ends]
        lines.append([label(method), str(len(trainings)), *map(_spread, columns)])
    head = ["arm", "trainings", "A", "A, split draws", *SHOWN.values(), "last mean", f"last pass@{SAMPLES}, {LEVEL}"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def _spread(values: pl.Series) -> str:
    """Mean and standard deviation over trainings, in points."""
    spread = "" if len(values) < 2 else f" ± {100 * float(str(values.std())):.1f}"
    return f"{100 * float(str(values.mean())):.1f}{spread}" if len(values) else ""


def contrasts(followed: Paths, metric: str) -> None:
    """The accuracy bought by each arm less that of what it is compared with, uncorrected."""
    bought: dict[str, Floats] = followed.bought(metric)
    lines = []
    for method in in_order(bought):
        against = LIKE_WITH_LIKE.get(method, "grpo")
        if method == against or against not in bought:
            continue
        ours, theirs = bought[method], bought[against]
        found = of_draws(ours, theirs, followed.questions)
        low, high = found.interval(0.95)
        parts = ", ".join(f"{100 * part.half(0.05):.1f}" for part in found.parts)
        lines.append([
            f"{label(method)} - {label(against)}", f"{len(ours)}, {len(theirs)}",
            f"{100 * found.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]", parts,
            f"{100 * found.detectable(0.05):.1f}", shown_p(found.p),
            shown_p(permutation_p(ours[:, 0], theirs[:, 0])),
        ])  # fmt: skip
    head = [metric, "trainings", "difference [95 %]", "trainings, questions", "finds", "p", "permutation p"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def tables(path: Path) -> None:
    """Print all tables of each run."""
    for (run,), counts in pl.read_parquet(path).partition_by("run", as_dict=True, maintain_order=True).items():
        print(f"## {run}\n")
        study = study_of(counts)
        followed = next(found for found in paths(study) if found.level == LEVEL)
        arms(study, followed)
        for metric in (BOUGHT, BOUGHT_SPLIT):
            contrasts(followed, metric)
        for lost in where_lost(comparisons(study), DATASET):
            print(markdown_table(lost))


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
