"""The embedded world's acceptance by figures of its base model, as Markdown tables; no RL is in them.

First the base's samples, without any training, by the workflow; then this, which adds samples of the in-domain questions
whose responses are forced to begin as a style does:

    .venv/bin/snakemake --cores 2 --configfile config/config.yaml partition \\
        results/demo/evaluation/base/{in_domain,cross,maths}.parquet
    .venv/bin/python benchmarks/world.py config/config.yaml results/demo

The rules are those of docs/decisions/the-world.md.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dphrl.artifacts.tables import read_table
from dphrl.config.config import Config
from dphrl.config.load import read_config
from dphrl.evaluation.estimator import pass_at_k
from dphrl.rollout.factory import make_engine
from dphrl.rollout.requests import plan_requests, rollout_frame
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.tables import score_rollouts
from dphrl.tasks.tokens import load_tokenizer
from dphrl.toy.annotators import PREFIXES
from dphrl.toy.questions import RADII, STRATA

RADIUS = r"(?i)ABS\(\w+ - \d+\) <= (\d+)"
NO_LIMIT = float("inf")
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
    return 100 * float(pass_at_k(counts["n"], counts["c"], k).mean()) if k <= (counts["n"].min() or 0) else float("nan")


def of_the_run(run: Path) -> dict[str, float]:
    """Figures that the run's own tables give."""
    found = {}
    for name in ("in_domain", "cross", "maths"):
        if not (path := run / f"evaluation/base/{name}.parquet").exists():
            continue
        rows = read_table(path, "evaluation")
        levels = {f"{level}{'' if name == 'in_domain' else ', cross-domain'}": rows.filter(level=level) for level in STRATA}
        for level, some in ({"maths": rows} if name == "maths" else levels).items():
            found |= {f"pass@{k}, {level}, %": passes(some, k) for k in (1, 8, 16)}
    in_domain = read_table(run / "evaluation/base/in_domain.parquet", "evaluation")
    in_domain = in_domain.with_columns(first=pl.col("styles").list.head(16).list.n_unique())
    ambiguous = in_domain.filter(level="ambiguous")
    found |= {"styles of 16, in domain": mean(in_domain["first"]), "styles of 16, ambiguous": mean(ambiguous["first"])}
    drawn = read_table(run / "rollouts/base/in_domain.evaluate/0.parquet", "rollouts")
    drawn = drawn.filter(pl.col("sample_index").is_between(0, 15)).join(ambiguous, on="prompt_id", how="semi")
    radius = pl.col("text").str.extract(RADIUS).cast(pl.Int64, strict=False)
    radii = drawn.group_by("prompt_id").agg(radii=radius.filter(radius.is_in(list(RADII))).n_unique())
    found["radii of 16, ambiguous"] = mean(radii["radii"])
    levels = read_table(run / "prompts/train.parquet", "prompts").select("prompt_id", "level")
    partition = read_table(run / "partition/final.parquet", "partition").join(levels, on="prompt_id")
    mastered = partition.filter(subset="pef")
    found["D_pef after refinement, % of the training questions"] = 100 * mastered.height / partition.height
    for level in STRATA:
        found[f"{level} questions in D_pef, %"] = 100 * mastered.filter(level=level).height / max(mastered.height, 1)
    return found


def mean(values: pl.Series) -> float:
    """The mean; not a number without values."""
    return float(values.cast(pl.Float64).mean() or float("nan"))


def forced(config: Config, run: Path, questions: int) -> pl.DataFrame:
    """Samples n and right ones c of in-domain questions (prompt_id, level) by style that the response begins with."""
    policy, plan = run / "policies/base", config.sampling.evaluate.model_copy(update={"greedy": False, "n": 16})
    tokenizer = load_tokenizer(policy)
    gold = read_table(run / "gold/in_domain.parquet", "gold").filter("kept")
    prompts = read_table(run / "prompts/in_domain.parquet", "prompts").join(gold, on="prompt_id", how="semi")
    prompts = prompts.sort("prompt_id").group_by("level", maintain_order=True).head(questions)
    engine = make_engine(
        policy, config.engine.model_copy(update={"name": "transformers"}), config.hardware.for_sampling()
    )
    settings, counts = config.scoring.sql.model_dump(exclude={"workers"}), []
    with make_scorer("sql", settings, databases=run / "toy/databases", programs=False) as scorer:
        for style, prefix in PREFIXES.items():
            # The last blank belongs to the token after it.
            begin = prefix.rstrip()
            tokens = pl.col("prompt_token_ids").list.concat(pl.lit(tokenizer(begin)["input_ids"]))
            requests = plan_requests(prompts.with_columns(tokens), f"forced/{style}", plan, config.seed)
            drawn = rollout_frame(requests, engine.generate(requests, f"forced {style}"))
            verdicts = score_rollouts(drawn.with_columns(text=begin + pl.col("text")), gold, scorer)
            counted = verdicts.group_by("prompt_id").agg(n=pl.len(), c=pl.col("correct").sum())
            counts.append(counted.with_columns(style=pl.lit(style)))
    return pl.concat(counts).join(prompts.select("prompt_id", "level"), on="prompt_id")


def of_forced(counts: pl.DataFrame, free: float) -> dict[str, float]:
    """Figures of the forced samples; `free` is the pass@16 of ambiguous questions when nothing is forced."""
    found = {
        f"forced {style}: pass@16, {level}, %": passes(counts.filter(style=style, level=level), 16)
        for style in PREFIXES
        for level in STRATA
    }
    return found | {COST: free - max(found[f"forced {style}: pass@16, ambiguous, %"] for style in PREFIXES)}


def print_tables(found: Mapping[str, float]) -> None:
    """The rules with their figures, then the other figures."""
    missed = [rule.figure for rule in RULES if not rule.low <= found.get(rule.figure, float("nan")) <= rule.high]
    print(f"{len(missed)} of {len(RULES)} rules missed\n\n| rule | accepted | figure | |\n| --- | --- | ---: | --- |")
    for figure, low, high in RULES:
        accepted = f"{low:g} to {high:g}" if high < NO_LIMIT else f"at least {low:g}"
        result = "missed" if figure in missed else ""
        print(f"| {figure} | {accepted} | {found.get(figure, float('nan')):.2f} | {result} |")
    print("\n| other figure | |\n| --- | ---: |")
    for figure in [name for name in found if name not in {rule.figure for rule in RULES}]:
        print(f"| {figure} | {found[figure]:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="the configuration of the run")
    parser.add_argument("run", type=Path, help="folder of the run, e.g. results/demo")
    parser.add_argument("--questions", type=int, default=10**6, help="forced questions of each stratum (default all)")
    arguments = parser.parse_args()
    of_run = of_the_run(arguments.run)
    samples = forced(read_config(arguments.config), arguments.run, arguments.questions)
    print_tables(of_run | of_forced(samples, of_run["pass@16, ambiguous, %"]))
