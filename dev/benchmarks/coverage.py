"""How often 95 % intervals hold the truth, by simulation, as Markdown tables: python dev/benchmarks/coverage.py

1. Differences of two methods over trainings and questions, in six populations. Four are measured: the trainings of
   DPH-F and DPH-JS in world 1 (demo-full, 16 each) and those of draws.yaml (12 each), less GRPO, whose 5 trainings give
   at most 5 to a run. Trainings and questions are drawn with replacement. Two are normal: trainings of a method vary by
   14 or 8 points, those of the other by 2; questions by 16, and trainings on one question by 14.
2. Claims on the normal populations without a difference, and with one of the margin.
3. Means over questions of one policy: 16 samples of each, many questions easy or hard, and questions on few databases.
4. Accuracy bought, less GRPO's: the measured paths of demo-full-paths are the population. Trainings are drawn with
   replacement, and questions within their levels, in these or other numbers. The interval then draws them again.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from registered import Counts, Floats, K, table

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation import pass_at_k
from dphrl.evaluation.frontier import bought_by_draw, means_and_covered, of_trainings
from dphrl.evaluation.interval import Questions, difference, of_draws, ratio
from dphrl.report.methods import label

COUNTS = Path(__file__).parents[2] / "docs/worked-example/counts.parquet"
TRAININGS, MARGIN, RUNS = (3, 5, 8, 16), 0.05, 2000
# Of the frontier: contrasts with GRPO, the least share of coverage, and draws of the questions in each run.
GAINED, KEPT, DRAWS = ("dph_f", "dph_js"), 0.7, 200


class Run(NamedTuple):
    """(trainings, questions) values of two methods, the true difference, and that of a further training."""

    ours: Floats
    theirs: Floats
    truth: float
    further: float


Population = Callable[[int], Iterator[Run]]


def measured(ours: Floats, theirs: Floats) -> Population:
    """Runs drawn from (trainings, questions) values."""

    def runs(size: int) -> Iterator[Run]:
        random, truth = np.random.default_rng(size), float(ours.mean() - theirs.mean())
        while True:
            asked = random.integers(0, ours.shape[1], ours.shape[1])
            drawn, against = (
                values[random.integers(0, len(values), number)][:, asked]
                for values, number in ((ours, size), (theirs, min(size, len(theirs))))
            )
            yield Run(drawn, against, truth, float(ours[random.integers(0, len(ours))].mean() - theirs.mean()))

    return runs


def normal(ours: float, theirs: float, better: float = 0.0, questions: int = 300) -> Population:
    """Runs with these standard deviations of trainings; our method is better by `better`."""

    def runs(size: int) -> Iterator[Run]:
        random = np.random.default_rng(size)
        while True:
            of_questions = random.normal(0, 0.16 / np.sqrt(2), (2, 1, questions))
            noise = random.normal(0, 0.14 / np.sqrt(2), (2, size, questions))
            of_trainings = random.normal(0, np.array([ours, theirs])[:, None, None], (2, size, 1))
            rows = of_questions + noise + of_trainings
            yield Run(rows[0] + better, rows[1], better, better + random.normal(0, ours))

    return runs


def populations() -> dict[str, Population]:
    """The six populations by name."""
    counts = Counts(COUNTS)
    world = counts.values("demo-full", "covered", "ambiguous")
    draws = [counts.values(run, "covered", "ambiguous") for run in sorted(set(counts.rows["run"])) if "draws" in run]
    made = {}
    for method, name in (("dph_f", "DPH-F"), ("dph_js", "DPH-JS")):
        made[f"{name}, world 1"] = measured(world[method], world["grpo"])
        made[f"{name}, draws"] = measured(np.concatenate([values[method] for values in draws]), world["grpo"])
    return made | {"normal, 14 and 2 points": normal(0.14, 0.02), "normal, 8 and 2 points": normal(0.08, 0.02)}


def over_trainings(runs: int) -> None:
    """Print coverage, the share of intervals above the truth, half-widths, and how often a further training is in."""
    lines = []
    for name, population in populations().items():
        held, high, further, halves = np.zeros((4, len(TRAININGS)))
        for place, size in enumerate(TRAININGS):
            for run, _ in zip(population(size), range(runs), strict=False):
                estimate = difference([run.ours], [run.theirs], [Questions(np.ones(run.ours.shape[1]))])
                below, above = estimate.interval(0.95)
                held[place] += below <= run.truth <= above
                high[place] += run.truth < below
                further[place] += below <= run.further <= above
                halves[place] += estimate.half()
        cells = [[f"{100 * share:.1f}" for share in values / runs] for values in (held, high, halves, further)]
        lines.append([name, *(", ".join(values) for values in cells)])
    head = [f"{', '.join(map(str, TRAININGS))} trainings", "held, %", "too high, %", "half-width, points"]
    table([*head, "a further training is inside, %"], lines, "lrrrr")


def over_claims(runs: int) -> None:
    """Print how often a true difference is found, and how often the 90 % interval lies within the margin."""
    lines = []
    for better in (0.0, MARGIN):
        for size in TRAININGS:
            found, inside = 0, 0
            for run, _ in zip(normal(0.021, 0.021, better)(size), range(runs), strict=False):
                estimate = difference([run.ours], [run.theirs], [Questions(np.ones(run.ours.shape[1]))])
                low, high = estimate.interval(0.95)
                found += low > 0 or high < 0
                inside += max(map(abs, estimate.interval(0.9))) < MARGIN
            lines.append(
                [f"{100 * better:.0f}", str(size), *(f"{100 * share / runs:.1f}" for share in (found, inside))]
            )
    table(["true difference, points", "trainings", "found, %", "within the margin, %"], lines, "rrrr")


def over_questions(trials: int) -> None:
    """Print the coverage of intervals of one policy."""
    lines = []
    for questions in (30, 100, 300):
        random = np.random.default_rng(questions)
        chances, many = (random.beta(0.6, 0.8, size) for size in ((questions, trials), 10**6))
        right = random.binomial(16, chances)
        rare = (random.random(chances.shape) < 0.02).astype(float)
        cases = ((many.mean(), right / 16), ((1 - (1 - many) ** 8).mean(), pass_at_k(16, right, 8)), (0.02, rare))
        lines.append([str(questions), *(_held(truth, ratio(np.asarray(values))) for truth, values in cases)])
    table(["questions", "mean of 16 samples", "pass@8", "a share of 2 %"], lines, "rrrr")
    lines = []
    for clusters in (5, 11, 25):
        random = np.random.default_rng(clusters)
        labels = np.repeat(np.arange(clusters), np.arange(1, clusters + 1) * 4)
        shared = random.normal(0, np.sqrt(0.1), (clusters, trials))[labels]
        values = shared + random.normal(0, np.sqrt(0.9), (len(labels), trials))
        both = (ratio(values, clusters=given, proportion=False) for given in (labels, None))
        lines.append([str(clusters), *(_held(0.0, intervals) for intervals in both)])
    table(["databases", "in clusters", "as if independent"], lines, "rrr")


def over_frontiers(runs: int) -> None:
    """Print coverage and power of the contrasts of accuracy bought, by trainings and by questions."""
    study = Counts(COUNTS).study("demo-full-paths", EvaluateConfig())
    base, by_method = study.policies[0], of_trainings(study.policies)
    levels = base.rows["level"].to_numpy()
    inside, random = levels == "ambiguous", np.random.default_rng(4)

    def bought(drawn: Floats) -> dict[str, Floats]:
        """(trainings, draws) by method, from how often each question counts."""
        return {
            method: np.stack([bought_by_draw(*means_and_covered(path, K, inside, drawn), KEPT) for path in paths])
            for method, paths in by_method.items()
        }

    truth = {method: float(values.mean()) for method, values in bought(np.ones((len(levels), 1))).items()}
    lines = []
    for factor in (0.6, 1.0, 3.0):
        size = round(factor * len(levels))
        tallies = {method: np.zeros((2, len(TRAININGS))) for method in GAINED}
        for _ in range(runs):
            drawn = np.empty((len(levels), 1 + DRAWS))
            for level in np.unique(levels):
                here = np.flatnonzero(levels == level)
                number = round(factor * len(here))
                drawn[here, 0] = random.multinomial(number, np.full(len(here), 1 / len(here)))
                drawn[here, 1:] = random.multinomial(number, drawn[here, 0] / number, DRAWS).T
            measured = bought(drawn)
            for place, trainings in enumerate(TRAININGS):
                again = {
                    method: values[random.integers(0, len(values), trainings)] for method, values in measured.items()
                }
                for method, tally in tallies.items():
                    estimate = of_draws(again[method], again["grpo"], Questions(np.ones(size)))
                    low, high = estimate.interval(0.95)
                    tally[:, place] += low <= truth[method] - truth["grpo"] <= high, low > 0
        for method, tally in tallies.items():
            cells = [", ".join(f"{100 * share:.0f}" for share in shares / runs) for shares in tally]
            lines.append([label(method), f"{100 * (truth[method] - truth['grpo']):+.1f}", str(size), *cells])
    head = ["less GRPO", "true difference, points", "questions"]
    table([*head, f"{', '.join(map(str, TRAININGS))} trainings: held, %", "found, %"], lines, "lrrrr")


def _held(truth: float, intervals: tuple[Floats, Floats, Floats]) -> str:
    _, low, high = intervals
    return f"{100 * float(((low <= truth) & (truth <= high)).mean()):.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated runs of each cell")
    parser.add_argument("--nested", type=int, default=400, help="simulated runs of each cell of the frontier")
    options = parser.parse_args()
    over_trainings(options.runs)
    over_claims(options.runs)
    over_questions(options.runs)
    over_frontiers(options.nested)
