"""The registration on a language model (docs/decisions/language-model.md): counts of finished runs, and its tables.

    .venv/bin/python dev/benchmarks/registered_llm.py collect docs/worked-example/language-model.parquet results/...
    .venv/bin/python dev/benchmarks/registered_llm.py tables docs/worked-example/language-model.parquet

The file has a row for each question of each policy that was evaluated, so that all tables follow from it.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
import polars as pl
from registered import PRIMARY, Both, both, collect, contrasts, table

from dphrl.config.load import read_config
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.study import Study
from dphrl.report.methods import label
from dphrl.report.page_tables import where_lost
from dphrl.report.text_tables import markdown_table
from dphrl.store.parquet import read_table
from dphrl.store.policy_names import PolicyName

EXPERIMENT = Path(__file__).parents[2] / "config/experiments/demo-llm.yaml"
METHODS = ("grpo", "exp_only", "dph_f", "dph_js", "rkl_k2")
SEEN, OTHER, SOLVED = "unseen", "development", "pass@16"


class Contrast(NamedTuple):
    """A difference of two methods in pass@16 or the mean of samples."""

    dataset: str
    metric: str
    method: str
    against: str


ENDPOINTS = tuple(Contrast(SEEN, SOLVED, *pair) for pair in PRIMARY)
SECONDARY = (
    *(Contrast(OTHER, SOLVED, *pair) for pair in PRIMARY),
    *(Contrast(SEEN, "mean@16", method, "base") for method in METHODS),
    *(Contrast(SEEN, SOLVED, method, "rkl_k2") for method in ("dph_f", "dph_js")),
)
NOT_REGISTERED = tuple(
    contrast
    for dataset in (SEEN, OTHER)
    for pair in (("dph_f", "base"), ("dph_js", "base"), ("dph_f", "exp_only"), ("rkl_k2", "grpo"), ("dph_f", "rkl_k2"))
    if (contrast := Contrast(dataset, SOLVED, *pair)) not in SECONDARY
)
REGISTERED, TRAININGS = "demo-llm-full", {"grpo": 5, "exp_only": 3, "dph_f": 3, "dph_js": 5, "rkl_k2": 3}


# Classes among the right samples of a question.
_right_programs = pl.struct("programs", "correct").map_elements(
    lambda row: len({program for program, right in zip(*row.values(), strict=False) if right} - {None}),
    return_dtype=pl.Int32,
)


def of_run(run: Path) -> Iterator[pl.DataFrame]:
    """The counts of each policy of a run on each dataset."""
    for path in sorted((run / "evaluation").rglob("*.parquet")):
        name = PolicyName.parse(str(path.parent.relative_to(run / "evaluation")))
        yield read_table(path, "evaluation").select(
            pl.lit(run.name).alias("run"), pl.lit(path.stem).alias("dataset"), pl.lit(name.method).alias("method"),
            pl.lit(name.seed, pl.Int32).alias("seed"), pl.lit(name.step, pl.Int32).alias("step"),
            "prompt_id", "cluster", "n", "c", "greedy_correct", distinct_programs=_right_programs,
        )  # fmt: skip


def policies(study: Study) -> None:
    """Means over trainings with their standard deviation, and the lowest and highest training, by dataset."""
    by_policy: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for policy in study.policies:
        shares = {name: 100 * float(value.mean()) for name, value in policy.proportions(study.config.k).items()}
        programs = float(policy.column("distinct_programs").mean())
        by_policy[policy.key.dataset, policy.key.method].append({**shares, "right programs": programs})
    for dataset in (SEEN, OTHER):
        lines = []
        for method in ("base", *METHODS):
            trainings = by_policy[dataset, method]
            solved = [training[SOLVED] for training in trainings]
            lines.append([
                label(method), "" if method == "base" else str(len(trainings)),
                *(spread([training[name] for training in trainings], name) for name in trainings[0]),
                f"{min(solved):.1f}, {max(solved):.1f}" if len(solved) > 1 else "",
            ])  # fmt: skip
        head = [dataset, "trainings", *by_policy[dataset, "base"][0], f"{SOLVED}: lowest, highest"]
        table(head, lines, "l" + "r" * (len(head) - 1))


def spread(values: list[float], name: str) -> str:
    """Mean and standard deviation; the mean alone of one training."""
    digits = 2 if name == "right programs" else 1
    return " ± ".join(f"{value:.{digits}f}" for value in (mean(values), *([stdev(values)] if len(values) > 1 else [])))


def family(study: Study, asked: tuple[Contrast, ...], correction: str) -> None:
    """Print the contrasts of a family."""
    names = [
        f"{label(contrast.method)} - {label(contrast.against)}, {contrast.metric}, {contrast.dataset}"
        for contrast in asked
    ]
    contrasts(names, [_difference(study, contrast) for contrast in asked], correction)


def _difference(study: Study, contrast: Contrast) -> Both:
    """The questions of a database are not independent of each other."""
    policies = [policy for policy in study.policies if policy.key.dataset == contrast.dataset]
    values: dict[str, list[np.ndarray]] = defaultdict(list)
    for policy in policies:
        solved = policy.pass_at([16])[:, 0] if contrast.metric == SOLVED else policy.solve_rates
        values[policy.key.method].append(solved)
    rows = {method: np.stack(of_method) for method, of_method in values.items()}
    return both(rows, contrast.method, contrast.against, policies[0].clusters)


def tables(path: Path) -> None:
    """Print all tables of each run."""
    config = read_config(EXPERIMENT)
    for (run,), counts in pl.read_parquet(path).partition_by("run", as_dict=True).items():
        trained = counts.filter(pl.col("method") != "base").group_by("method").agg(pl.col("seed").n_unique())
        if run == REGISTERED and (numbers := dict(trained.iter_rows())) != TRAININGS:
            sys.exit(f"{path}: {run} is not complete: its trainings are {numbers}, registered are {TRAININGS}")
        print(f"## {run}\n")
        study = Study.from_evaluations(counts.drop("run"), config.evaluate, config.seed)
        policies(study)
        family(study, ENDPOINTS, "Holm")
        family(study, SECONDARY, "BH")
        family(study, NOT_REGISTERED, "uncorrected")
        for lost in where_lost(comparisons(study), SEEN):
            print(markdown_table(lost))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "tables"])
    parser.add_argument("counts", type=Path, help="the file of counts")
    parser.add_argument("runs", type=Path, nargs="*", help="folders of finished runs")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.runs, arguments.counts, of_run, ["run", "dataset", "method", "seed", "prompt_id"])
    else:
        tables(arguments.counts)
