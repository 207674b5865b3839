"""The arena (docs/decisions/arena.md): its counts from finished runs, and its tables.

    .venv/bin/python dev/benchmarks/arena.py collect docs/arena.parquet results/arena ...
    .venv/bin/python dev/benchmarks/arena.py tables docs/arena.parquet
    .venv/bin/python dev/benchmarks/arena.py figure docs/arena.parquet      # docs/images/arena.svg

The file has a row for each question of each policy that was evaluated, so that all tables follow from it. The policies
of a run <name>-hot, drawn at a higher temperature, stand with those of <name>, whose base they are compared with.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from registered import collect, shown_p, table

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import BOUGHT, BOUGHT_SPLIT, Paths, of_trainings, paths
from dphrl.evaluation.interval import Estimate, of_draws, permutation_p
from dphrl.evaluation.study import Study
from dphrl.report.figures import to_svg
from dphrl.report.methods import colours, in_order, label
from dphrl.report.page_tables import where_lost
from dphrl.report.text_tables import markdown_table
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import BASE, PolicyName

DATASET, LEVEL, SAMPLES, HOT = "in_domain", "ambiguous", 8, "-hot"
CONFIG = EvaluateConfig(datasets=(DATASET,), k=(1, 2, 4, 8))
FIGURE = Path(__file__).parents[2] / "docs/images/arena.svg"
# The rival of mixtures is a mixture, that of each other arm GRPO.
LIKE_WITH_LIKE = {"dph_f-mixed": "grpo-mixed"}
GAINS = ["gain@0.9", "gain@0.8", "gain@0.7"]


def of_run(run: Path) -> Iterator[pl.DataFrame]:
    """The counts of each policy of a run. Questions are numbered by their ids.

    Hotter policies are checkpoints with names such as `grpo_t13_s41_step16`.
    """
    for path in sorted((run / "evaluation").rglob(f"{DATASET}.parquet")):
        policy = str(path.parent.relative_to(run / "evaluation"))
        if run.name.endswith(HOT):
            if policy == str(BASE):
                continue
            policy = re.sub(r"_(s\d+)_(step\d+)$", r"-\1/\2", policy)
        name = PolicyName.parse(policy)
        rows = read_table(path, "evaluation").sort("prompt_id").with_row_index("question")
        yield rows.select(
            run=pl.lit(run.name.removesuffix(HOT)), method=pl.lit(name.method),
            seed=pl.lit(name.seed, pl.Int32), step=pl.lit(name.step, pl.Int32),
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
    """Of each arm the accuracy bought less that of its rival, without and with split draws, and where it ends."""
    last: dict[str, list[tuple[float, float]]] = {}
    for policy in study.last_steps().policies:
        inside = (policy.rows["level"] == LEVEL).to_numpy()
        solved = policy.pass_at([SAMPLES])[inside, 0].mean()
        last.setdefault(policy.key.method, []).append((policy.solve_rates.mean(), solved))
    lines = []
    for method in in_order(followed.trainings):
        values = pl.DataFrame([training.values for training in followed.trainings[method]])
        ends = pl.DataFrame(last.get(method, []), schema=["mean", "solved"], orient="row")
        cells = [label(method), str(values.height)]
        for metric in (BOUGHT, BOUGHT_SPLIT):
            found = less_rival(followed, metric, method)
            cells += [_spread(values[metric]), shown(found[0]) if found else "", shown_p(found[1]) if found else ""]
        lines.append([*cells, *map(_spread, [values["best_mean"], *ends])])
    compared = ["less rival [95 %]", "permutation p"]
    head = ["arm", "trainings", "A", *compared, "A, split draws", *compared]
    head += ["best mean", "last mean", f"last pass@{SAMPLES}, {LEVEL}"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def parts(followed: Paths) -> None:
    """Of each arm the parts of both intervals, the differences that they find in 80 % of cases, and the curve G."""
    lines = []
    for method in in_order(followed.trainings):
        values = pl.DataFrame([training.values for training in followed.trainings[method]])
        cells = [label(method)]
        for metric in (BOUGHT, BOUGHT_SPLIT):
            found = less_rival(followed, metric, method)
            halves = ", ".join(f"{100 * part.half(0.05):.1f}" for part in found[0].parts) if found else ""
            cells += [halves, *([f"{100 * found[0].detectable(0.05):.1f}", shown_p(found[0].p)] if found else ["", ""])]
        lines.append([*cells, *map(_spread, values.select(GAINS))])
    measured = ["trainings, questions", "finds", "p"]
    head = ["arm", *measured, *(f"{name}, split draws" for name in measured), *GAINS]
    table(head, lines, "l" + "r" * (len(head) - 1))


def less_rival(followed: Paths, metric: str, method: str) -> tuple[Estimate, float] | None:
    """The accuracy bought by an arm less that of its rival, and the permutation p; None without a rival."""
    rival, bought = LIKE_WITH_LIKE.get(method, "grpo"), followed.bought(metric)
    if method == rival or rival not in bought:
        return None
    ours, theirs = bought[method], bought[rival]
    return of_draws(ours, theirs, followed.questions), permutation_p(ours[:, 0], theirs[:, 0])


def shown(found: Estimate) -> str:
    """A difference with its interval, in points."""
    low, high = found.interval(0.95)
    return f"{100 * found.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _spread(values: pl.Series) -> str:
    """Mean and standard deviation over trainings, in points."""
    points = 100 * values.to_numpy()
    spread = f" ± {points.std(ddof=1):.1f}" if len(points) > 1 else ""
    return f"{points.mean():.1f}{spread}" if len(points) else ""


def tables(path: Path) -> None:
    """Print all tables of each run."""
    for (run,), counts in pl.read_parquet(path).partition_by("run", as_dict=True, maintain_order=True).items():
        print(f"## {run}\n")
        study = study_of(counts)
        followed = next(found for found in paths(study) if found.level == LEVEL)
        arms(study, followed)
        parts(followed)
        for lost in where_lost(comparisons(study), DATASET):
            print(markdown_table(lost))


def figure(path: Path, run: str) -> alt.LayerChart | alt.FacetChart:
    """The mean path of each arm of a run: pass@8 on the ambiguous questions against mean accuracy."""
    study = study_of(pl.read_parquet(path).filter(run=run))
    points = []
    for method, paths_of in of_trainings(study.policies).items():
        for number, policies in enumerate(zip(*paths_of, strict=True)):
            inside = (policies[0].rows["level"] == LEVEL).to_numpy()
            accuracy = np.mean([policy.solve_rates.mean() for policy in policies])
            solved = np.mean([policy.pass_at([SAMPLES])[inside, 0].mean() for policy in policies])
            points.append((method, number, float(accuracy), float(solved)))
    rows = pl.DataFrame(points, ["method", "number", "accuracy", "solved"], orient="row")
    rows = rows.with_columns(free=pl.col("method").str.contains("-mixed|_t13"), arm=pl.col("method").replace_strict(
        arms := in_order(rows["method"]), [label(name) for name in arms], return_dtype=pl.String))  # fmt: skip
    colour = alt.Color("arm:N", legend=None, scale=alt.Scale(
        domain=[label(name) for name in arms], range=[*colours(arms).values()]))  # fmt: skip
    axis, scale = alt.Axis(format="%"), alt.Scale(zero=False)
    x = alt.X("accuracy:Q", title="mean accuracy, all questions", axis=axis, scale=scale)
    y = alt.Y("solved:Q", title=f"pass@{SAMPLES}, {LEVEL} questions", axis=axis, scale=scale)
    lines = alt.Chart(rows).mark_line(point=True).encode(
        x, y, colour, order="number:O", strokeDash=alt.StrokeDash("free:N", legend=None))  # fmt: skip
    ends = rows.filter(pl.col("number") == pl.col("number").max().over("method"))
    names = alt.Chart(ends).mark_text(align="left", dx=6, fontSize=11).encode(x, y, colour, text="arm:N")
    return alt.layer(lines, names).properties(width=640, height=420, background="white", padding=10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "tables", "figure"])
    parser.add_argument("counts", type=Path, help="the file of counts")
    parser.add_argument("runs", type=Path, nargs="*", help="folders of finished runs")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, arguments.counts, of_run, ["run", "method", "seed", "step", "question"])
    elif arguments.what == "tables":
        tables(arguments.counts)
    else:
        FIGURE.write_text(to_svg(figure(arguments.counts, "arena")), encoding="utf-8")
