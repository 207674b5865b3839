"""Intervals and verdicts on simulated runs, as Markdown tables: python dev/benchmarks/coverage.py

Six methods are trained with S seeds on one base and asked Q questions. In points, a difference of two methods varies by
2.1 x sqrt(2) between seeds, by 16 between questions and by 14 between seeds on one question; nothing differs truly
unless it says so. The numbers go through the code that makes the tables comparisons and claims.

1. Coverage of 95 % intervals, questions alone and in clusters of unequal size (intraclass correlation 0.1), where the
   seed variances of the methods are alike, and where every other method has four times the variance of the rest.
2. Power at the differences that two-sided tests at 5 % should find in 80 % of runs.
3. Verdicts on one claim alone; and the runs in which any of four primary ones has a direction.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from dphrl.evaluation.crossed import Crossed, Difference, Questions, holm

from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import CONTRADICTED, EQUIVALENT, LEVEL, SUPPORTED, judge

SEED_SD, QUESTION_SD, BOTH_SD, CORRELATION = 0.021, 0.16, 0.14, 0.1
METHODS = ("grpo", "dph_f", "dph_js", "exp_only", "rkl", "dapo")
PRIMARY = (("grpo", "base"), ("dph_f", "grpo"), ("dph_js", "grpo"), ("dph_js", "exp_only"))
POWER = {(3, 300): 0.061, (5, 300): 0.049, (5, 600): 0.044, (8, 600): 0.036, (10, 1200): 0.030}
SEEDS, QUESTIONS, CLUSTERS = (3, 5, 8), (100, 300, 1000), (0, 5, 11, 25)
# Which methods have four times the seed variance of the others: those with an odd number.
UNLIKE, BOTH_HIGH = ("grpo", "dph_f"), ("dph_f", "exp_only")


class Cell(NamedTuple):
    """Seeds, questions, clusters (0: none), the ratio of the seed variances, and how much each method is better."""

    seeds: int
    questions: int
    clusters: int = 0
    ratio: float = 1.0
    better: float = 0.0


def runs(cell: Cell, number: int, seed: int) -> Iterator[Crossed]:
    """Simulated runs; `better` is the true value of every other method above the rest."""
    random = np.random.default_rng([seed, *map(int, cell[:4]), round(1000 * cell.better)])
    labels = _labels(cell)
    questions = [Questions(np.ones(cell.questions), labels)]
    low = SEED_SD**2 * 2 / (1 + cell.ratio)
    for _ in range(number):
        values = {"base": [_of_questions(random, cell, labels)[None, :]]}
        for place, method in enumerate(METHODS):
            sd = np.sqrt(low * (cell.ratio if place % 2 else 1.0))
            own = cell.better * (place % 2) + random.normal(0, sd, (cell.seeds, 1))
            noise = random.normal(0, BOTH_SD / np.sqrt(2), (cell.seeds, cell.questions))
            values[method] = [own + _of_questions(random, cell, labels) + noise]
        yield Crossed(values, questions, ["base"])


def _labels(cell: Cell) -> Any:
    """The cluster of each question, the last ones the largest; None without clusters."""
    if not cell.clusters:
        return None
    sizes = np.arange(1, cell.clusters + 1) / sum(range(1, cell.clusters + 1))
    return np.searchsorted(np.cumsum(sizes), (np.arange(cell.questions) + 0.5) / cell.questions)


def _of_questions(random: np.random.Generator, cell: Cell, labels: Any) -> Any:
    """A method's values on the questions, of which two methods' differ by `QUESTION_SD`."""
    sd, shared = QUESTION_SD / np.sqrt(2), CORRELATION if cell.clusters else 0.0
    values = random.normal(0, sd * np.sqrt(1 - shared), cell.questions)
    return values + random.normal(0, sd * np.sqrt(shared), cell.clusters)[labels] if cell.clusters else values


def coverage(cell: Cell, number: int) -> tuple[float, float, float]:
    """Share of intervals that hold 0 for two methods of unlike variances, their mean width, the share for two high."""
    held, widths, high = 0, 0.0, 0
    for run in runs(cell, number, 1):
        below, above = run.difference(*UNLIKE).interval(0.95)
        held, widths = held + (below <= 0 <= above), widths + above - below
        below, above = run.difference(*BOTH_HIGH).interval(0.95)
        high += below <= 0 <= above
    return held / number, widths / number, high / number


def power(cell: Cell, number: int) -> float:
    """Share of runs whose test finds the true difference of the first two methods."""
    return sum(run.difference("dph_f", "grpo").p <= LEVEL for run in runs(cell, number, 2)) / number


def verdicts(cell: Cell, number: int) -> tuple[float, float, float, float]:
    """Shares of supported and contradicted of one claim, of runs with either among the primary ones, of equivalent."""
    counts = np.zeros(4)
    for run in runs(cell, number, 3):
        differences = [run.difference(*pair) for pair in PRIMARY]
        corrected = holm([difference.p for difference in differences])
        primary = {_verdict(each, p, LEVEL / len(PRIMARY)) for each, p in zip(differences, corrected, strict=True)}
        alone = _verdict(differences[1], differences[1].p, LEVEL)
        counts += [
            alone == SUPPORTED,
            alone == CONTRADICTED,
            not primary.isdisjoint((SUPPORTED, CONTRADICTED)),
            alone == EQUIVALENT,
        ]
    return tuple(counts / number)


def _verdict(difference: Difference, p: float, level: float) -> str:
    row = {
        "primary": True,
        "relation": "higher",
        "metric": "pass@16",
        "against": "other",
        "difference": difference.value,
    }
    row |= {"error": difference.error, "freedom": difference.freedom, "seeds": 3, "seeds_against": 3, "questions": 1}
    row |= {"of_seeds": 0.0, "of_questions": 0.0, "of_both": 0.0, "trainings": []}
    judge(row, p, ClaimsConfig(), level)
    return str(row["verdict"])


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table; numbers have one digit after the point."""
    lines = [heads, ["---:"] * len(heads), *rows]
    for line in lines:
        print(
            "|", " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in line), "|", flush=True
        )
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000, help="simulated runs of each cell")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:

        def each(measure: Callable[[Cell, int], Any], cells: Sequence[Cell]) -> list[Any]:
            return list(pool.map(measure, cells, [options.runs] * len(cells)))

        for ratio, heads in ((1.0, ["coverage"]), (4.0, ["coverage, 1 : 4", "4 : 4"])):
            cells = [Cell(s, q, g, ratio) for s in SEEDS for q in QUESTIONS for g in CLUSTERS]
            measured = dict(zip(cells, each(coverage, cells), strict=True))
            rows = []
            for cell, (held, width, high) in measured.items():
                wider = width / measured[cell._replace(clusters=0)][1]
                shares = [100 * held, *([100 * high] if ratio > 1 else [])]
                rows.append((cell.seeds, cell.questions, cell.clusters or "-", *shares, f"{wider:.2f}"))
            print_table(["seeds", "questions", "clusters", *heads, "width, to none"], rows)
        cells = [Cell(*size, better=better) for size, better in POWER.items()]
        powers = each(power, cells)
        rows = [(*cell[:2], 100 * cell.better, 100 * share) for cell, share in zip(cells, powers, strict=True)]
        print_table(["seeds", "questions", "difference", "power"], rows)
        cells = [Cell(s, q, better=better) for s, q in ((3, 300), (5, 600)) for better in (0.0, 0.05)]
        rows = []
        for cell, shares in zip(cells, each(verdicts, cells), strict=True):
            supported, contradicted, any_primary, equivalent = (100 * float(share) for share in shares)
            any_false = "-" if cell.better else any_primary
            rows.append((*cell[:2], 100 * cell.better, supported, contradicted, any_false, equivalent))
        heads = ["seeds", "questions", "difference", "supported", "contradicted", "any primary", "equivalent"]
        print_table(heads, rows)


if __name__ == "__main__":
    main()
