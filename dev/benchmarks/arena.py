"""The arena (docs/decisions/arena.md): its counts from finished runs, and its tables.

    .venv/bin/python dev/benchmarks/arena.py collect docs/arena.parquet results/arena ...
    .venv/bin/python dev/benchmarks/arena.py tables docs/arena.parquet
    .venv/bin/python dev/benchmarks/arena.py figure docs/arena.parquet      # docs/images/arena.svg

The file has a row for each question of each policy that was evaluated, so that all tables follow from it. The policies
of a run <name>-hot, drawn at a higher temperature, count as policies of <name>: its base is theirs.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from registered import Floats, collect, shown_p, table

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import BOUGHT, BOUGHT_SPLIT, Paths, means_and_covered, of_trainings, paths
from dphrl.evaluation.interval import Estimate, of_draws, permutation_p
from dphrl.evaluation.study import Policy, Study
from dphrl.report.figures import theme, to_svg
from dphrl.report.methods import in_order, label
from dphrl.report.page_tables import where_lost
from dphrl.report.text_tables import markdown_table
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import BASE, PolicyName

DATASET, LEVEL, SAMPLES, HOT = "in_domain", "ambiguous", 8, "-hot"
CONFIG = EvaluateConfig(datasets=(DATASET,), k=(1, 2, 4, 8))
FIGURE = Path(__file__).parents[2] / "docs/images/arena.svg"
# Mixtures are compared with mixtures. GRPO is the rival of every other arm.
LIKE_WITH_LIKE = {"dph_f-mixed": "grpo-mixed"}
GAINS = ["gain@0.9", "gain@0.8", "gain@0.7"]
# By metric and arm: the difference to its rival, and the permutation p.
Contrasts = Mapping[str, Mapping[str, tuple[Estimate, float]]]


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


def arms(study: Study, followed: Paths, contrasts: Contrasts) -> None:
    """The accuracy bought by each arm, less its rival's, without and with split draws, and where the arm ends."""
    last: dict[str, list[Policy]] = {}
    for policy in study.last_steps().policies:
        last.setdefault(policy.key.method, []).append(policy)
    lines = []
    for method in in_order(followed.trainings):
        values = pl.DataFrame([training.values for training in followed.trainings[method]])
        cells = [label(method), str(values.height)]
        for metric, compared in contrasts.items():
            cells.append(spread(values[metric].to_numpy()))
            if method in compared:
                difference, permuted = compared[method]
                cells += [shown(difference), shown_p(permuted)]
            else:
                cells += ["", ""]
        # A path of mixtures ends with the policy that is mixed.
        ends = map(spread, accuracy_and_coverage(last[method])) if method in last else ("", "")
        lines.append([*cells, spread(values["best_mean"].to_numpy()), *ends])
    differences = ["less rival [95 %]", "permutation p"]
    head = ["arm", "trainings", "A", *differences, "A, split draws", *differences]
    head += ["best mean", "last mean", f"last pass@{SAMPLES}, {LEVEL}"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def parts(followed: Paths, contrasts: Contrasts) -> None:
    """The parts of both intervals of each arm, the differences that they find in 80 % of cases, and the curve G."""
    lines = []
    for method in in_order(followed.trainings):
        values = pl.DataFrame([training.values for training in followed.trainings[method]])
        cells = [label(method)]
        for compared in contrasts.values():
            if method in compared:
                difference, _ = compared[method]
                halves = ", ".join(f"{100 * part.half(0.05):.1f}" for part in difference.parts)
                cells += [halves, f"{100 * difference.detectable(0.05):.1f}", shown_p(difference.p)]
            else:
                cells += ["", "", ""]
        lines.append([*cells, *(spread(values[name].to_numpy()) for name in GAINS)])
    measured = ["trainings, questions", "finds", "p"]
    head = ["arm", *measured, *(f"{name}, split draws" for name in measured), *GAINS]
    table(head, lines, "l" + "r" * (len(head) - 1))


def less_rivals(followed: Paths, metric: str) -> dict[str, tuple[Estimate, float]]:
    """The accuracy bought by each arm with a rival, less the rival's, and the permutation p."""
    bought = followed.bought(metric)
    compared = {}
    for method, ours in bought.items():
        rival = LIKE_WITH_LIKE.get(method, "grpo")
        if rival != method and rival in bought:
            theirs = bought[rival]
            compared[method] = of_draws(ours, theirs, followed.questions), permutation_p(ours[:, 0], theirs[:, 0])
    return compared


def accuracy_and_coverage(policies: Sequence[Policy]) -> tuple[Floats, Floats]:
    """(policies,) each, mean accuracy over all questions, and pass@8 on the ambiguous ones."""
    inside = (policies[0].rows["level"] == LEVEL).to_numpy()
    accuracy, solved = means_and_covered(policies, SAMPLES, inside, np.ones((len(inside), 1)))
    return accuracy[:, 0], solved[:, 0]


def shown(difference: Estimate) -> str:
    """A difference with its interval, in points."""
    low, high = difference.interval(0.95)
    return f"{100 * difference.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def spread(values: Floats) -> str:
    """Mean and standard deviation over trainings, in points."""
    deviation = f" ± {100 * values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{deviation}"


def tables(path: Path) -> None:
    """Print all tables of each run."""
    for (run,), counts in pl.read_parquet(path).partition_by("run", as_dict=True, maintain_order=True).items():
        print(f"## {run}\n")
        study = study_of(counts)
        followed = next(of_level for of_level in paths(study) if of_level.level == LEVEL)
        contrasts = {metric: less_rivals(followed, metric) for metric in (BOUGHT, BOUGHT_SPLIT)}
        arms(study, followed, contrasts)
        parts(followed, contrasts)
        for lost in where_lost(comparisons(study), DATASET):
            print(markdown_table(lost))


def figure(path: Path, run: str) -> alt.LayerChart | alt.FacetChart:
    """The mean path of each arm of a run: pass@8 on the ambiguous questions against mean accuracy."""
    study = study_of(pl.read_parquet(path).filter(run=run))
    points = []
    for method, trainings in of_trainings(study.policies).items():
        accuracy, solved = np.mean([accuracy_and_coverage(path) for path in trainings], axis=0)
        points += [(method, number, x, y) for number, (x, y) in enumerate(zip(accuracy, solved, strict=True))]
    rows = theme.with_policy(pl.DataFrame(points, ["method", "number", "accuracy", "solved"], orient="row"))
    rows = rows.with_columns(free=pl.col("method").str.contains("-mixed|_t13"))
    colour = theme.policy_colour(rows).legend(None)
    axis, scale = alt.Axis(format="%"), alt.Scale(zero=False)
    x = alt.X("accuracy:Q", title="mean accuracy, all questions", axis=axis, scale=scale)
    y = alt.Y("solved:Q", title=f"pass@{SAMPLES}, {LEVEL} questions", axis=axis, scale=scale)
    dash = alt.StrokeDash("free:N", legend=None)
    lines = alt.Chart(rows).mark_line(point=True).encode(x, y, colour, dash, order="number:O")
    ends = rows.filter(pl.col("number") == pl.col("number").max().over("method"))
    names = alt.Chart(ends).mark_text(align="left", dx=6, fontSize=11).encode(x, y, colour, text="policy:N")
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
