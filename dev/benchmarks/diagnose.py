"""Verdicts of `dphrl diagnose` on simulated pairs of files, as Markdown tables: python dev/benchmarks/diagnose.py

Each question has a solve rate, drawn from one of several shapes; a pair of files has 8, 16, 32 or 64 samples of each
question (a quarter of the pairs each), K is that number. Null pairs are two draws of one model. A lower model loses so
many points of pass@K: in half of the pairs some questions are never solved, in the others every question's pass@K
falls by one factor.

1. Null pairs: verdicts in per cent (COLLAPSED is false), and how often the 95 % interval of the portfolio's gain at
   k = 8 holds 0.
2. Lower models: per cent COLLAPSED at each loss, and NOT COLLAPSED at a loss of 10 points (false).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluation import BootstrapConfig
from dphrl.diagnose.portfolio import portfolio
from dphrl.evaluation.bootstrap import PromptBootstrap
from dphrl.evaluation.study import Policy, PolicyKey
from dphrl.evaluation.verdict import CANNOT_TELL, COLLAPSED, NOT_COLLAPSED, decide

Floats = NDArray[np.float64]
SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda random, number: random.random(number),
    "U-shaped": lambda random, number: random.beta(0.3, 0.3, number),
    "mostly hard": lambda random, number: random.beta(0.3, 3.0, number),
    "mostly easy": lambda random, number: random.beta(3.0, 0.3, number),
    "none, some, all": lambda random, number: random.choice([0.0, 0.1, 1.0], number),
}
SAMPLES, QUESTIONS, LOSSES = (8, 16, 32, 64), (50, 100, 300, 1000), (0.0, 0.02, 0.05, 0.10)
MARGIN, BUDGET = 0.05, 8


class Cell(NamedTuple):
    """A shape, how many questions, and the true loss of pass@K."""

    shape: str
    questions: int
    loss: float


def pairs(cell: Cell, number: int, seed: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """n and the right samples of both files, of each pair."""
    place = list(SHAPES).index(cell.shape)
    random = np.random.default_rng([seed, place, cell.questions, round(1000 * cell.loss)])
    for pair in range(number):
        n, some = SAMPLES[pair % len(SAMPLES)], pair % (2 * len(SAMPLES)) < len(SAMPLES)
        rates = SHAPES[cell.shape](random, cell.questions)
        share = cell.loss / _mean_pass(cell.shape, n)
        if some:
            lower = np.where(random.random(cell.questions) < share, 0.0, rates)
        else:
            lower = 1.0 - (1.0 - (1.0 - share) * (1.0 - (1.0 - rates) ** n)) ** (1.0 / n)
        yield n, random.binomial(n, rates), random.binomial(n, lower)


@cache
def _mean_pass(shape: str, n: int) -> float:
    """pass@n of the population of questions."""
    rates = SHAPES[shape](np.random.default_rng(0), 400_000)
    return float((1.0 - (1.0 - rates) ** n).mean())


def policy(name: str, n: int, c: NDArray[np.int64]) -> Policy:
    """A policy of right samples alone."""
    rows = pl.DataFrame({"prompt_id": np.arange(len(c)), "n": np.full(len(c), n), "c": c})
    return Policy(PolicyKey(name, 0, 0, "d"), rows, PromptBootstrap(1, "d", BootstrapConfig(replicates=100), 0))


def verdicts(cell: Cell, number: int) -> tuple[dict[str, float], float]:
    """Shares of the verdicts in per cent; of null pairs also how often the portfolio's interval holds 0."""
    counts, held = dict.fromkeys((COLLAPSED, NOT_COLLAPSED, CANNOT_TELL), 0), 0
    for place, (n, before, after) in enumerate(pairs(cell, number, 1)):
        base, tuned = policy("base", n, before), policy("tuned", n, after)
        counts[decide(base, tuned, n, MARGIN).word] += 1
        if not cell.loss:
            row = portfolio(base, tuned, [BUDGET], place).row(0, named=True)
            held += row["low"] <= 0.0 <= row["high"]
    return {word: 100.0 * count / number for word, count in counts.items()}, 100.0 * held / number


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table."""
    for line in [heads, ["---:"] * len(heads), *rows]:
        print("|", " | ".join(line), "|", flush=True)
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000, help="of each cell (default: 1000)")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    cells = [Cell(shape, questions, loss) for shape in SHAPES for questions in QUESTIONS for loss in LOSSES]
    with ProcessPoolExecutor(given.processes) as pool:
        found = dict(zip(cells, pool.map(partial(verdicts, number=given.pairs), cells), strict=True))
    null, lower = [], []
    for shape in SHAPES:
        for questions in QUESTIONS:
            words, held = found[Cell(shape, questions, 0.0)]
            start = [shape, str(questions)]
            null.append([*start, *(f"{words[word]:.1f}" for word in words), f"{held:.1f}"])
            of_loss = {loss: found[Cell(shape, questions, loss)][0] for loss in LOSSES[1:]}
            powers = (f"{one[COLLAPSED]:.1f}" for one in of_loss.values())
            lower.append([*start, *powers, f"{of_loss[LOSSES[-1]][NOT_COLLAPSED]:.1f}"])
    heads = ["solve rates", "questions"]
    print_table([*heads, COLLAPSED, NOT_COLLAPSED, CANNOT_TELL, "portfolio's interval holds 0"], null)
    points = [f"{COLLAPSED} at -{100 * loss:.0f}" for loss in LOSSES[1:]]
    print_table([*heads, *points, f"{NOT_COLLAPSED} at -10"], lower)


if __name__ == "__main__":
    main()
