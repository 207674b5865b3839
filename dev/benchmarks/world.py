"""The embedded world's acceptance by figures of its base model, as Markdown tables; no RL is in them.

First the base's samples, without any training, by the workflow; then this, which adds samples of in-domain questions
with each response forced to begin as a style does:

    .venv/bin/snakemake --cores 2 --configfile config/config.yaml partition \\
        results/demo/evaluation/base/{in_domain,cross,maths}.parquet
    .venv/bin/python dev/benchmarks/world.py config/config.yaml results/demo

The rules are those of docs/decisions/the-world.md. With --memory, of a finished run, the means of its policies on the
ambiguous training questions follow: above 45 % a policy has learnt golds by heart.
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from dphrl.config.config import Config
from dphrl.config.load import read_config
from dphrl.data.tokens import load_tokenizer
from dphrl.evaluation.estimator import pass_at_k
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.requests import SamplingPlan, rollout_frame, shard
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict_tables import score_rollouts
from dphrl.store.parquet import read_table
from dphrl.toy.questions import PREFIXES, RADII, STRATA

RADIUS = r"(?i)ABS\(\w+ - \d+\) <= (\d+)"
NO_LIMIT = math.inf
COST = "collapse cost: pass@16 less that of the best forced style, ambiguous, points"


class Rule(NamedTuple):
    """A line of the acceptance rule: a figure of the base model, and where it must lie."""

    figure: str
    low: float
    high: float


RULES = (
    Rule("pass@16, ambiguous, %", 85, 95),
    Rule("pass@8, ambiguous, %", 75, 90),
    Rule(COST, 25, NO_LIMIT),
    *(Rule(f"forced {style}: pass@16, plain, %", 98, 100) for style in PREFIXES),
    Rule("D_pef after refinement, % of the training questions", 25, 40),
    Rule("ambiguous questions in D_pef, %", 0, 2),
    Rule("styles of 16, in domain", 4, 5),
    Rule("styles of 16, ambiguous", 4, 5),
    Rule("radii of 16, ambiguous", 4, 5),
    Rule("pass@16, maths, %", 60, 90),
)


def passes(counts: pl.DataFrame, k: int) -> float:
    """Mean pass@k of the questions in per cent; not a number without k samples of each."""
    drawn, right = counts["n"].to_numpy(), counts["c"].to_numpy()
    return 100 * float(np.mean(pass_at_k(drawn, right, k))) if drawn.min(initial=k) >= k and len(drawn) else math.nan


def of_the_run(run: Path) -> dict[str, float]:
    """Figures that the run's own tables give."""
    figures: dict[str, float] = {}
    for name in ("in_domain", "cross", "maths"):
        if not (path := run / f"evaluation/base/{name}.parquet").exists():
            continue
        rows = read_table(path, "evaluation")
        levels = {
            f"{level}{'' if name == 'in_domain' else ', cross-domain'}": rows.filter(level=level) for level in STRATA
        }
        for level, some in ({"maths": rows} if name == "maths" else levels).items():
            figures |= {f"pass@{k}, {level}, %": passes(some, k) for k in (1, 8, 16)}
    in_domain = read_table(run / "evaluation/base/in_domain.parquet", "evaluation")
    in_domain = in_domain.with_columns(first=pl.col("styles").list.head(16).list.n_unique())
    ambiguous = in_domain.filter(level="ambiguous")
    figures |= {
        "styles of 16, in domain": mean(in_domain["first"]),
        "styles of 16, ambiguous": mean(ambiguous["first"]),
    }
    drawn = read_table(run / "rollouts/base/in_domain.evaluate/0.parquet", "rollouts")
    drawn = drawn.filter(pl.col("sample_index").is_between(0, 15)).join(ambiguous, on="prompt_id", how="semi")
    radius = pl.col("text").str.extract(RADIUS).cast(pl.Int64, strict=False)
    radii = drawn.group_by("prompt_id").agg(radii=radius.filter(radius.is_in(list(RADII))).n_unique())
    figures["radii of 16, ambiguous"] = mean(radii["radii"])
    asked = read_table(run / "prompts/train.parquet", "prompts").select("prompt_id", "level")
    partition = read_table(run / "draws/main/partition/final.parquet", "partition").join(asked, on="prompt_id")
    mastered = partition.filter(subset="pef")
    figures["D_pef after refinement, % of the training questions"] = 100 * mastered.height / partition.height
    for level in STRATA:
        figures[f"{level} questions in D_pef, %"] = 100 * mastered.filter(level=level).height / max(mastered.height, 1)
    return figures


def mean(values: pl.Series) -> float:
    """The mean; not a number without values."""
    return float(np.mean(values.to_numpy())) if len(values) else math.nan


class Sampler:
    """Samples questions of a run and counts right ones, in this process.

    Args:
        config: of the run.
        run: its folder.
        dataset: the questions.
        questions: at most so many of each stratum.
    """

    def __init__(self, config: Config, run: Path, dataset: str, questions: int) -> None:
        self.config, self.run = config, run
        self.gold = read_table(run / f"gold/{dataset}.parquet", "gold").filter("kept")
        prompts = read_table(run / f"prompts/{dataset}.parquet", "prompts").join(self.gold, on="prompt_id", how="semi")
        self.prompts = prompts.sort("prompt_id").group_by("level", maintain_order=True).head(questions)
        self.tokenizer = load_tokenizer(run / "policies/base")

    def engine(self, policy: Path) -> Engine:
        """The engine that starts fastest, with a policy of the run."""
        engine = self.config.engine.model_copy(update={"name": "transformers"})
        return make_engine(policy, engine, self.config.hardware, alone=True)

    def counts(self, engine: Engine, label: str, n: int, begin: str = "") -> pl.DataFrame:
        """prompt_id, level, n and c of each question, with n samples whose responses begin so."""
        plan = self.config.sampling.evaluate.model_copy(update={"greedy": False, "n": n})
        tokens = pl.col("prompt_token_ids").list.concat(pl.lit(self.tokenizer(begin)["input_ids"], pl.List(pl.Int32)))
        requests = SamplingPlan(label, plan, self.config.seed).requests(shard(self.prompts.with_columns(tokens), 0, 1))
        drawn = rollout_frame(requests, engine.generate(requests, label)).with_columns(text=begin + pl.col("text"))
        settings = self.config.scoring.sql.model_dump(exclude={"workers"})
        with make_scorer("sql", settings, databases=self.run / "toy/databases", programs=False) as scorer:
            verdicts = score_rollouts(drawn, self.gold, self.prompts, scorer, {})
        counted = verdicts.group_by("prompt_id").agg(n=pl.len(), c=pl.col("correct").sum())
        return counted.join(self.prompts.select("prompt_id", "level"), on="prompt_id")


def forced(config: Config, run: Path, questions: int) -> pl.DataFrame:
    """Counts of in-domain questions by the style that all responses begin as."""
    sampler = Sampler(config, run, "in_domain", questions)
    engine = sampler.engine(run / "policies/base")
    # The last blank of a prefix belongs to the next token.
    begins = {style: prefix.rstrip() for style, prefix in PREFIXES.items()}
    counts_of = {style: sampler.counts(engine, f"forced/{style}", 16, begin) for style, begin in begins.items()}
    return pl.concat(counts.with_columns(style=pl.lit(style)) for style, counts in counts_of.items())


def print_memory(config: Config, run: Path, questions: int) -> None:
    """The mean of every last policy on the ambiguous training questions: golds that it may have learnt by heart."""
    sampler = Sampler(config, run, config.train_dataset, questions)
    sampler.prompts = sampler.prompts.filter(level="ambiguous")
    trained = [path for path in run.glob("policies/*/step*") if path.name == f"step{config.steps(method(path))}"]
    print("\n| policy | mean of 8 samples on ambiguous training questions, % |\n| --- | ---: |")
    for policy in [run / "policies/base", *sorted(trained)]:
        counts = sampler.counts(sampler.engine(policy), f"memory/{policy.parent.name}", 8)
        print(f"| {policy.relative_to(run / 'policies')} | {passes(counts, 1):.1f} |", flush=True)


def method(policy: Path) -> str:
    """The method of the folder policies/<method>-s<seed>/step<step>."""
    return policy.parent.name.rpartition("-s")[0]


def of_forced(counts: pl.DataFrame, free: float) -> dict[str, float]:
    """Figures of the forced samples; `free` is the pass@16 of ambiguous questions when nothing is forced."""
    figures = {
        f"forced {style}: pass@16, {level}, %": passes(counts.filter(style=style, level=level), 16)
        for style in PREFIXES
        for level in STRATA
    }
    return figures | {COST: free - max(figures[f"forced {style}: pass@16, ambiguous, %"] for style in PREFIXES)}


def print_tables(figures: Mapping[str, float]) -> None:
    """The rules with their figures, then the other figures."""
    missed = [rule.figure for rule in RULES if not rule.low <= figures.get(rule.figure, math.nan) <= rule.high]
    print(f"{len(missed)} of {len(RULES)} rules missed\n\n| rule | accepted | figure | |\n| --- | --- | ---: | --- |")
    for figure, low, high in RULES:
        accepted = f"{low:g} to {high:g}" if high < NO_LIMIT else f"at least {low:g}"
        result = "missed" if figure in missed else ""
        print(f"| {figure} | {accepted} | {figures.get(figure, float('nan')):.2f} | {result} |")
    print("\n| other figure | |\n| --- | ---: |")
    for figure in [name for name in figures if name not in {rule.figure for rule in RULES}]:
        print(f"| {figure} | {figures[figure]:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, nargs="+", help="the files of the configuration, as the run had them")
    parser.add_argument("run", type=Path, help="folder of the run, e.g. results/demo")
    parser.add_argument(
        "--questions", type=int, default=10**6, help="at most so many questions of a stratum for new samples"
    )
    parser.add_argument("--memory", action="store_true", help="add the mean of trained policies on training questions")
    arguments = parser.parse_args()
    of_config, of_run = read_config(*arguments.config), of_the_run(arguments.run)
    samples = forced(of_config, arguments.run, arguments.questions)
    print_tables(of_run | of_forced(samples, of_run["pass@16, ambiguous, %"]))
    if arguments.memory:
        print_memory(of_config, arguments.run, arguments.questions)
