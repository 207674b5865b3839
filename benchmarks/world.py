"""The embedded world's acceptance by figures of its base model, as a Markdown table; there is no RL in it.

    python benchmarks/world.py config/config.yaml --seed 2 --folder worlds/2

runs the workflow of that configuration without its methods, up to the partition and the evaluations of the base policy.
Then it samples the in-domain questions again with each response forced to begin as a style does. Rules:
docs/decisions/the-world.md. It ends with status 1 where a figure misses its rule.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl
import yaml

from dphrl.artifacts.tables import read_footer, read_table
from dphrl.config.config import Config
from dphrl.config.load import load_config, read_yaml
from dphrl.evaluation.estimator import pass_at_k
from dphrl.rollout.factory import make_engine
from dphrl.rollout.requests import plan_requests, rollout_frame
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.tables import score_rollouts
from dphrl.tasks.tokens import load_tokenizer
from dphrl.toy.annotators import PREFIXES
from dphrl.toy.questions import RADII

ROOT = Path(__file__).resolve().parents[1]
STRATA = ("plain", "noisy", "ambiguous")
RADIUS = r"(?i)ABS\(\w+ - \d+\) <= (\d+)"
INFINITE = float("inf")


class Rule(NamedTuple):
    """A line of the acceptance rule: a figure of the base model and where it must lie."""

    figure: str
    low: float
    high: float


RULES = (
    Rule("pass@16, ambiguous, %", 85, 95),
    Rule("pass@8, ambiguous, %", 75, 90),
    Rule("collapse cost (pass@16 less that of the best single style), ambiguous, points", 25, INFINITE),
    *(Rule(f"forced {style}: pass@16, plain, %", 98, 100) for style in PREFIXES),
    Rule("D_pef after refinement, % of the training questions", 25, 40),
    Rule("ambiguous questions in D_pef, %", 0, 2),
    Rule("styles of 16, in domain", 4, 5),
    Rule("styles of 16, ambiguous", 4, 5),
    Rule("radii of 16, ambiguous", 4, 5),
    Rule("maths pass@16, %", 60, 90),
)


def run_the_base(config: Mapping[str, object], folder: Path, cores: int) -> None:
    """The workflow without methods, up to the partition and the base's evaluations."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
    command = [sys.executable, str(ROOT / "workflow_scripts/launch.py"), "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(folder / "config.yaml"), "--cores", str(cores)]
    subprocess.run([*command, "reference", "evaluate"], check=True, stdout=sys.stderr)


def passes(evaluation: pl.DataFrame, k: int) -> float:
    """Mean pass@k of the questions in per cent."""
    return 100 * float(pass_at_k(evaluation["n"], evaluation["c"], k).mean()) if evaluation.height else float("nan")


def forced(config: Config, run: Path, questions: int) -> pl.DataFrame:
    """The columns style, level, n and c of in-domain questions whose response begins as the style does."""
    policy, plan = run / "policies/base", config.sampling.evaluate.model_copy(update={"greedy": False})
    tokenizer = load_tokenizer(policy)
    prompts, gold = read_table(run / "prompts/in_domain.parquet", "prompts"), run / "gold/in_domain.parquet"
    kept = read_table(gold, "gold").filter("kept")
    prompts = prompts.join(kept, on="prompt_id", how="semi").sort("prompt_id")
    prompts = prompts.group_by("level", maintain_order=True).head(questions)
    engine = make_engine(policy, config.engine, config.hardware.for_sampling())
    frames = []
    settings = config.scoring.sql.model_dump(exclude={"workers"})
    with make_scorer("sql", settings, databases=run / "toy/databases", programs=False) as scorer:
        for style, prefix in PREFIXES.items():
            # Its last blank is part of the next token.
            begun = prompts.with_columns(pl.col("prompt_token_ids").list.concat(tokenizer(prefix.rstrip())["input_ids"]))
            requests = plan_requests(begun, f"forced/{style}", plan, config.seed)
            drawn = rollout_frame(requests, engine.generate(requests, f"forced {style}"))
            drawn = drawn.with_columns(text=pl.lit(prefix.rstrip()) + pl.col("text"))
            verdicts = score_rollouts(drawn, kept, scorer)
            counted = verdicts.group_by("prompt_id").agg(n=pl.len(), c=pl.col("correct").sum())
            frames.append(counted.join(prompts.select("prompt_id", "level"), on="prompt_id").with_columns(style=pl.lit(style)))
    return pl.concat(frames)


def radii(run: Path, prompts: pl.DataFrame) -> float:
    """Mean number of the annotators' radii among the samples of an ambiguous question."""
    drawn = read_table(run / "rollouts/base/in_domain.evaluate/0.parquet", "rollouts").filter(pl.col("sample_index") >= 0)
    drawn = drawn.join(prompts, on="prompt_id", how="semi")
    read = drawn.with_columns(radius=pl.col("text").str.extract(RADIUS).cast(pl.Int64, strict=False))
    counted = read.group_by("prompt_id").agg(pl.col("radius").filter(pl.col("radius").is_in(list(RADII))).n_unique())
    return float(counted["radius"].mean() or 0.0)


def of_the_base(run: Path) -> dict[str, float]:
    """Figures that the run's own tables give."""
    found = {}
    sets = {name: read_table(run / f"evaluation/base/{name}.parquet", "evaluation") for name in ("in_domain", "cross", "maths")}
    for name in ("in_domain", "cross"):
        place = "" if name == "in_domain" else ", cross-domain"
        for level in STRATA:
            rows = sets[name].filter(level=level)
            for k in (1, 8, 16):
                found[f"pass@{k}, {level}{place}, %"] = passes(rows, k)
    for k in (1, 8, 16):
        found[f"maths pass@{k}, %"] = passes(sets["maths"], k)
    in_domain = sets["in_domain"]
    ambiguous = in_domain.filter(level="ambiguous")
    found["styles of 16, in domain"] = float(in_domain["distinct_styles"].mean() or 0)
    found["styles of 16, ambiguous"] = float(ambiguous["distinct_styles"].mean() or 0)
    found["radii of 16, ambiguous"] = radii(run, ambiguous)
    prompts = read_table(run / "prompts/train.parquet", "prompts").select("prompt_id", "level")
    partition = read_table(run / "partition/final.parquet", "partition").join(prompts, on="prompt_id")
    mastered = partition.filter(subset="pef")
    found["D_pef after refinement, % of the training questions"] = 100 * mastered.height / partition.height
    for level in STRATA:
        found[f"{level} questions in D_pef, %"] = 100 * mastered.filter(level=level).height / max(mastered.height, 1)
    for least in (6, 7, 8):
        some = partition.filter(pl.col("c") >= least)
        found[f"at least {least} pre-samples right, % of the training questions"] = 100 * some.height / partition.height
    timings = run / "timings/policies/base.parquet"
    if read_footer(timings)["schema"] == "timings":
        found["seconds to make the base"] = read_table(timings, "timings").filter(part="total")["seconds"][0]
    return found


def of_forced(samples: pl.DataFrame, free: float) -> dict[str, float]:
    """Figures of the forced samples; `free` is the pass@16 of the ambiguous questions when nothing is forced."""
    found = {
        f"forced {style}: pass@16, {level}, %": passes(samples.filter(style=style, level=level), 16)
        for style in PREFIXES
        for level in STRATA
    }
    best = max(found[f"forced {style}: pass@16, ambiguous, %"] for style in PREFIXES)
    found[RULES[2].figure] = free - best
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="a configuration with the embedded world")
    parser.add_argument("--seed", type=int, help="seed of the world, in place of toy.seed")
    parser.add_argument("--folder", type=Path, default=Path("results/world"), help="where the run goes")
    parser.add_argument("--cores", type=int, default=2, help="cores of Snakemake (default 2)")
    parser.add_argument("--questions", type=int, default=10**6, help="forced questions of each stratum (default all)")
    parser.add_argument("--save", type=Path, help="write all figures to this JSON file")
    arguments = parser.parse_args()
    given = read_yaml(arguments.config) | {"methods": {}}
    if arguments.seed is not None:
        given["toy"]["seed"] = arguments.seed
    config = load_config(given)
    run_the_base(given, arguments.folder, arguments.cores)
    run = arguments.folder / "results" / config.run
    found = of_the_base(run)
    found |= of_forced(forced(config, run, arguments.questions), found["pass@16, ambiguous, %"])
    if arguments.save:
        arguments.save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    missed = [rule for rule in RULES if not rule.low <= found[rule.figure] <= rule.high]
    print(f"World {config.toy.seed if config.toy else ''} of {arguments.config}: {len(missed)} of {len(RULES)} rules missed\n")
    print("| rule | accepted | figure | |\n| --- | --- | ---: | --- |")
    for rule in RULES:
        accepted = f"{rule.low:g} to {rule.high:g}" if rule.high < INFINITE else f"at least {rule.low:g}"
        print(f"| {rule.figure} | {accepted} | {found.pop(rule.figure):.1f} | {'missed' if rule in missed else ''} |")
    print("\n| other figure | |\n| --- | ---: |")
    for name, value in found.items():
        print(f"| {name} | {value:.1f} |")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
