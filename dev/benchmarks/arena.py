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
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from registered import Floats, collect, shown_p, table

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.frontier import BOUGHT, BOUGHT_SPLIT, means_and_covered, of_trainings, paths
from dphrl.evaluation.interval import Estimate, Questions, holm, of_draws, permutation_p
from dphrl.evaluation.study import Policy, Study
from dphrl.report.figures import theme, to_svg
from dphrl.report.methods import in_order, label
from dphrl.report.page_tables import where_lost
from dphrl.report.text_tables import markdown_table
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import BASE, PolicyName

DATASET, LEVEL, SAMPLES, HOT, STAGE_2, SPLIT = "in_domain", "ambiguous", 8, "-hot", "arena-stage-2", ", split draws"
# A counts the accuracy while this share of the base's coverage, or more, is kept: as registered, and more strictly.
KEPT = {"A from 70 %": 0.7, "A from 90 %": 0.9}
FIGURE = Path(__file__).parents[2] / "docs/images/arena.svg"
# Mixtures are compared with mixtures. GRPO is the rival of every other arm.
LIKE_WITH_LIKE = {"dph_f-mixed": "grpo-mixed"}
# Of stage 2, by family: the number, the arms that Holm's correction is over, and their rival
# (docs/decisions/arena-stage-2.md).
REHEARSE = ("right", "boundary", "replay")
FAMILIES = {
    "first": ("A from 70 %", REHEARSE, "grpo"),
    "clip": ("A from 70 %", REHEARSE, "clip_higher"),
    "second": ("A from 90 %", ("alpha_dpg", "maxrl", "pkpo", "dph_f-mixed"), "grpo"),
}


class Measure(NamedTuple):
    """A kind of accuracy bought.

    Attributes:
        bought: by arm, (trainings, 1 + draws of the questions).
        questions: how the questions were drawn again.
    """

    bought: Mapping[str, Floats]
    questions: Questions

    def less(self, method: str, rival: str) -> tuple[Estimate, float]:
        """The difference of two arms, and its permutation p."""
        ours, theirs = self.bought[method], self.bought[rival]
        return of_draws(ours, theirs, self.questions), permutation_p(ours[:, 0], theirs[:, 0])


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


def study_of(counts: pl.DataFrame, kept: float = KEPT["A from 70 %"]) -> Study:
    """The counts of a run as the package's study, with A from the share `kept` on."""
    evaluations = counts.select(
        "method", "seed", "step", "level", prompt_id=pl.col("question").cast(pl.String).str.zfill(5),
        dataset=pl.lit(DATASET), n=pl.lit(SAMPLES, pl.Int32), c=pl.col("c").cast(pl.Int32),
        greedy_correct=pl.lit(None, pl.Boolean),
    )  # fmt: skip
    config = EvaluateConfig(datasets=(DATASET,), k=(1, 2, 4, 8), frontier_from=kept)
    return Study.from_evaluations(evaluations, config, 1)


def measures(counts: pl.DataFrame) -> dict[str, Measure]:
    """A and A with split draws, each from both shares of the coverage on."""
    by_name = {}
    for name, kept in KEPT.items():
        followed = next(of_level for of_level in paths(study_of(counts, kept)) if of_level.level == LEVEL)
        for metric, draws in ((BOUGHT, ""), (BOUGHT_SPLIT, SPLIT)):
            by_name[name + draws] = Measure(followed.bought(metric), followed.questions)
    return by_name


def arms(study: Study, by_name: Mapping[str, Measure]) -> None:
    """The accuracy bought by each arm, its best mean, and where it ends. Mixtures end with the policy that is mixed."""
    lines = []
    of_arm = of_trainings(study.policies)
    for method in in_order(of_arm):
        measured = [accuracy_and_coverage(path) for path in of_arm[method]]
        cells = [spread(measure.bought[method][:, 0]) for measure in by_name.values()]
        cells.append(spread([accuracy.max() for accuracy, _ in measured]))
        cells += [spread([accuracy[-1] for accuracy, _ in measured]), spread([solved[-1] for _, solved in measured])]
        lines.append([label(method), str(len(measured)), *cells])
    head = ["arm", "trainings", *by_name, "best mean", "last mean", f"last pass@{SAMPLES}, {LEVEL}"]
    table(head, lines, "l" + "r" * (len(head) - 1))


def contrasts(by_name: Mapping[str, Measure]) -> None:
    """For each difference to a rival: both parts of its interval, what it finds in 80 % of cases, p, permutation p."""
    lines = []
    for name, measure in by_name.items():
        for method in in_order(measure.bought):
            if method == "grpo":
                continue
            estimate, permuted = measure.less(method, LIKE_WITH_LIKE.get(method, "grpo"))
            halves = [f"{100 * part.half(0.05):.1f}" for part in estimate.parts]
            finds = f"{100 * estimate.detectable(0.05):.1f}"
            lines.append([name, label(method), shown(estimate), *halves, finds, shown_p(estimate.p), shown_p(permuted)])
    head = ["", "arm", "less rival [95 %]", "of trainings", "of questions", "finds", "p", "permutation p"]
    table(head, lines, "ll" + "r" * (len(head) - 2))


def families(by_name: Mapping[str, Measure]) -> None:
    """The registered contrasts of stage 2, each family with Holm's correction, without and with split draws."""
    lines = []
    for family, (number, compared, rival) in FAMILIES.items():
        pairs = [(arm, LIKE_WITH_LIKE.get(arm, rival)) for arm in compared]
        for draws in ("", SPLIT):
            tests = [by_name[number + draws].less(*pair) for pair in pairs]
            corrected = holm([estimate.p for estimate, _ in tests])
            for (arm, against), (estimate, permuted), p in zip(pairs, tests, corrected, strict=True):
                verdict = "supported" if p <= 0.05 and estimate.value > 0 else "not supported"
                cells = [shown(estimate), shown_p(estimate.p), shown_p(p), shown_p(permuted), verdict]
                lines.append([family, number + draws, f"{label(arm)} less {label(against)}", *cells])
    head = ["family", "", "contrast", "difference [95 %]", "p", "corrected p", "permutation p", ""]
    table(head, lines, "lll" + "r" * 4 + "l")


def accuracy_and_coverage(policies: Sequence[Policy]) -> tuple[Floats, Floats]:
    """(policies,) each, mean accuracy over all questions, and pass@8 on the ambiguous ones."""
    inside = (policies[0].rows["level"] == LEVEL).to_numpy()
    accuracy, solved = means_and_covered(policies, SAMPLES, inside, np.ones((len(inside), 1)))
    return accuracy[:, 0], solved[:, 0]


def shown(difference: Estimate) -> str:
    """A difference with its interval, in points."""
    low, high = difference.interval(0.95)
    return f"{100 * difference.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def spread(values: ArrayLike) -> str:
    """Mean and standard deviation over trainings, in points."""
    points = 100 * np.asarray(values)
    return f"{points.mean():.1f}" + (f" ± {points.std(ddof=1):.1f}" if points.size > 1 else "")


def tables(path: Path) -> None:
    """Print all tables of each run."""
    for (run,), counts in pl.read_parquet(path).partition_by("run", as_dict=True, maintain_order=True).items():
        print(f"## {run}\n")
        study, by_name = study_of(counts), measures(counts)
        arms(study, by_name)
        contrasts(by_name)
        if run == STAGE_2:
            families(by_name)
        for lost in where_lost(comparisons(study), DATASET):
            print(markdown_table(lost))


def figure(path: Path, run: str) -> Any:
    """The mean path of each arm of a run beside GRPO's: pass@8 on the ambiguous questions against mean accuracy."""
    study = study_of(pl.read_parquet(path).filter(run=run))
    points = []
    for method, trainings in of_trainings(study.policies).items():
        accuracy, solved = np.mean([accuracy_and_coverage(path) for path in trainings], axis=0)
        points += [(method, number, x, y) for number, (x, y) in enumerate(zip(accuracy, solved, strict=True))]
    means = pl.DataFrame(points, ["method", "number", "accuracy", "solved"], orient="row")
    names = [label(name) for name in in_order(means["method"]) if name != "grpo"]
    panels = pl.DataFrame({"panel": names})
    rows = pl.concat([
        panels.join(means.filter(method="grpo"), how="cross").with_columns(path=pl.lit("GRPO")),
        theme.with_policy(means.filter(pl.col("method") != "grpo"))
        .rename({"policy": "panel"})
        .select("panel", "method", "number", "accuracy", "solved", path=pl.lit("the arm")),
    ])  # fmt: skip
    axis, scale = alt.Axis(format="%", tickCount=4), alt.Scale(zero=False)
    x = alt.X("accuracy:Q", title="mean accuracy", axis=axis, scale=scale)
    y = alt.Y("solved:Q", title=f"pass@{SAMPLES}, {LEVEL}", axis=axis, scale=scale)
    colour = alt.Color("path:N", scale=alt.Scale(domain=["the arm", "GRPO"], range=["#0072b2", "#aab0b9"]))
    lines = (
        alt.Chart(rows).mark_line(point=True).encode(x, y, colour, order="number:O").properties(width=190, height=150)
    )
    return theme.faceted(lines, rows, "panel", "", 4, names, "The mean path of each arm beside GRPO's")


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
