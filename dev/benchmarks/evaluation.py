"""Ten million verdicts through the evaluation: python dev/benchmarks/evaluation.py

Two shapes: many policies on a thousand prompts, as in a run, and one policy with a thousand samples per prompt. The
tables are generated in memory, which is not timed. Each shape is measured in a separate process, whose peak memory
includes the tables.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl

from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.evaluation.against_base import crossing, keep_explore
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.per_prompt import evaluate
from dphrl.evaluation.rarefied import rarefaction
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import headline, passk

# Policies, prompts and samples per prompt.
SHAPES = {"policies": (100, 1_000, 100), "samples": (1, 10_000, 1_000), "small": (4, 20, 64)}
RULES = (StyleRule(name="plan", prefix="-- plan "), StyleRule(name="plain", prefix="SELECT "))
MAKERS = (
    passk,
    headline,
    keep_explore,
    rarefaction,
    crossing,
    comparisons,
)
CONFIG = EvaluateConfig(k=(1, 2, 4, 8, 16, 32, 64), against=("base", "m0"))


def judged(prompts: int, samples: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rollouts and verdicts of one policy: 50 different answers, a third of the samples correct."""
    generator = np.random.default_rng(seed)
    rows = prompts * samples
    names = pl.Series([f"prompt{number:010}" for number in range(prompts)])
    row = pl.int_range(rows, eager=True, dtype=pl.Int32)
    texts = pl.Series([f"SELECT a{number} FROM t" for number in range(50)])
    digests = pl.Series([f"{number:032x}" for number in range(50)])
    drawn = pl.Series(generator.integers(0, 50, rows, dtype=np.int32))
    right = drawn < 17
    key = pl.DataFrame({"prompt_id": names.gather(row // samples), "sample_index": row % samples})
    verdict = pl.select(verdict=pl.when(right).then(pl.lit("correct")).otherwise(pl.lit("wrong")))["verdict"]
    answers = digests.gather(pl.select(pl.when(right).then(pl.lit(0, pl.Int32)).otherwise(drawn)).to_series())
    verdicts = key.with_columns(verdict, right.alias("correct"), answers.alias("answer_class"))
    programs = digests.gather(drawn).alias("program_class")
    return key.with_columns(texts.gather(drawn).alias("text")), verdicts.with_columns(programs, reads_table=drawn > 0)


class Clock:
    """Seconds by part: wall clock, and all cores together, which other work on the machine changes less."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to a part."""
        wall, cores = time.perf_counter(), time.process_time()
        yield
        before = self.seconds.get(name, (0.0, 0.0))
        self.seconds[name] = before[0] + time.perf_counter() - wall, before[1] + time.process_time() - cores


def measure(shape: str) -> None:
    """Print one row per part of a shape."""
    policies, prompts, samples = SHAPES[shape]
    clock, peaks, frames = Clock(), {}, []
    for number in range(policies):
        rollouts, verdicts = judged(prompts, samples, number)
        peaks["input"] = peak()
        with clock.part("evaluate"):
            evaluated = evaluate(rollouts, verdicts, RULES)
        peaks["evaluate"] = peak()
        del rollouts, verdicts
        seed, step = (number - 1) // 3 + 1, min(number, 1)
        named = {"method": f"m{number % 3}" if number else "base", "seed": seed if number else 0, "step": step}
        labels = [pl.lit(value).alias(name) for name, value in named.items()]
        frames.append(evaluated.with_columns(*labels, dataset=pl.lit("d")))
    evaluations = pl.concat(frames)
    frames.clear()
    with clock.part("study"):
        study = Study.from_evaluations(evaluations, CONFIG, 1)
    del evaluations
    peaks["study"] = peak()
    for make in MAKERS:
        with clock.part(make.__name__):
            make(study)
        peaks[make.__name__] = peak()
    size = f"{policies} x {prompts:,} x {samples:,}"
    print(f"| {size} | input | | | {peaks['input']} |")
    for name, (wall, cores) in clock.seconds.items():
        print(f"| {size} | {name} | {wall:.2f} | {cores:.2f} | {peaks[name]} |")
    core = np.sum([clock.seconds[name] for name in ("evaluate", "study", "passk")], axis=0)
    print(f"| {size} | evaluate + study + passk | {core[0]:.2f} | {core[1]:.2f} | |")


def peak() -> int:
    """Peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, help="measure one shape, in this process")
    parser.add_argument("--small", action="store_true", help="a small shape only, to see that the benchmark runs")
    arguments = parser.parse_args()
    if arguments.shape:
        measure(arguments.shape)
        return
    print("| policies x prompts x samples | part | seconds | core seconds | peak MiB so far |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name in ("small",) if arguments.small else ("policies", "samples"):
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--shape", name], check=True)


if __name__ == "__main__":
    main()
