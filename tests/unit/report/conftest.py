"""Small seeded tables as the report reads them, a small run that a test may damage, and one to export."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_run import INDEX, SmallRun, build
from tiny_models import TOKENS

from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.per_prompt import classes_shown, evaluate
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import headline, passk, styles

RULES = (
    StyleRule(name="cte", prefix="WITH "),
    StyleRule(name="nested", prefix="SELECT * FROM ("),
    StyleRule(name="plain", prefix="SELECT "),
    StyleRule(name="plan", prefix="-- plan "),
)
PROMPTS, GOLD = "prompts/train.parquet", "gold/train.parquet"
K = (1, 2, 4, 8, 16)
# Per method: how sure of itself it is, and how wide its styles still are.
METHODS = {
    "base": (0.5, 1.0),
    "grpo": (0.72, 0.02),
    "exp_only": (0.74, 0.1),
    "dph_f": (0.78, 0.6),
    "dph_js": (0.76, 0.9),
}


def policy(method: str, dataset: str, seed: int, prompts: int = 40, n: int = 16) -> pl.DataFrame:
    """Evaluation of one made-up policy with the columns that name it."""
    sure, spread = METHODS[method]
    easy = np.random.default_rng([7, len(dataset)]).beta(2.0 * sure, 2.0 * (1.0 - sure), size=prompts)
    generator = np.random.default_rng([seed, *method.encode(), *dataset.encode()])
    starts = [*(rule.prefix for rule in RULES), "?"]
    weights = np.array([1.0, *[spread] * 3, 0.05 * spread])
    rollouts, verdicts = [], []
    for number, chance in enumerate(easy):
        for sample in range(-1, n):
            right = bool(generator.random() < chance)
            start = generator.choice(len(starts), p=weights / weights.sum())
            key = {"prompt_id": f"p{number:03}", "sample_index": sample}
            rollouts.append({**key, "text": f"{starts[start]}x"})
            verdict = {"verdict": "correct" if right else "wrong", "correct": right}
            classes = {"answer_class": f"a{right}", "program_class": f"q{start}", "extracted": None}
            verdicts.append({**key, **verdict, **classes, "reads_table": None if dataset == "maths" else start > 0})
    judged = pl.DataFrame(verdicts, schema_overrides={"reads_table": pl.Boolean, "extracted": pl.String})
    frame = evaluate(pl.DataFrame(rollouts), judged, () if dataset == "maths" else RULES, classes_shown([judged]))
    seed, step = (0, 0) if method == "base" else (seed, 40)
    names = pl.lit(method).alias("method"), pl.lit(seed, pl.Int32).alias("seed"), pl.lit(step, pl.Int32).alias("step")
    return frame.select(*names, pl.lit(dataset).alias("dataset"), pl.all())


def training(seeds: tuple[int, ...]) -> pl.DataFrame:
    """Reward and entropy of every method and seed over 40 steps."""
    steps = np.arange(1, 41)
    rows = []
    for method, (sure, spread) in METHODS.items():
        for seed in seeds if method != "base" else ():
            noise = np.random.default_rng(seed).normal(0, 0.01, 40)
            reward = 0.45 + 0.4 * (1 - np.exp(-steps / 12)) * sure + noise
            entropy = 0.2 + spread * np.exp(-steps / 15) + noise
            for metric, values in (("reward", reward), ("entropy", entropy)):
                rows += [(method, seed, int(step), metric, float(one)) for step, one in zip(steps, values, strict=True)]
    schema = {"method": pl.String, "seed": pl.Int32, "step": pl.Int32, "metric": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def make_tables(
    seeds: tuple[int, ...], datasets: tuple[str, ...] = ("in_domain", "cross", "maths")
) -> dict[str, pl.DataFrame]:
    """All tables of the report for five policies."""
    runs = [(method, seed) for method in METHODS for seed in (seeds if method != "base" else (0,))]
    evaluations = pl.concat(policy(method, dataset, seed) for dataset in datasets for method, seed in runs)
    study = Study.from_evaluations(evaluations, EvaluateConfig(k=K), 1)
    return {
        "comparisons": comparisons(study),
        "passk": passk(study),
        "headline": headline(study),
        "styles": styles(study),
        "keep_explore": keep_explore(study),
        "training": training(seeds),
    }


@pytest.fixture(scope="session")
def tables() -> dict[str, pl.DataFrame]:
    """Tables with one training seed."""
    return make_tables((1,))


@pytest.fixture(scope="session")
def many_seeds() -> dict[str, pl.DataFrame]:
    """Tables with three training seeds on one dataset."""
    return make_tables((1, 2, 3), ("in_domain",))


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("audit") / "small"
    build(root)
    return root


@pytest.fixture
def small_run(built: Path, tmp_path: Path) -> SmallRun:
    """A run without a fault, and without an end, which a test may change."""
    shutil.copytree(built, tmp_path / "run")
    return SmallRun(tmp_path / "run")


@pytest.fixture
def finished(small_run: SmallRun) -> SmallRun:
    """The same run with SHA256SUMS."""
    small_run.finish()
    return small_run


@pytest.fixture(scope="module")
def exportable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with plain prompts, each with the ground truth 7."""
    run = SmallRun(tmp_path_factory.mktemp("built") / "run")
    build(run.root)
    texts = {ids[0]: f"{TOKENS[ids[0]]}{TOKENS[ids[1]]}" for ids in run.read(PROMPTS)["prompt_token_ids"]}
    messages = [[{"role": "user", "content": texts[ids[0]]}] for ids in run.read(PROMPTS)["prompt_token_ids"]]
    run.rewrite(PROMPTS, run.read(PROMPTS).with_columns(messages=pl.Series([*map(json.dumps, messages)])))
    run.change_footer(PROMPTS, lambda footer: footer["config"]["prompts"].update(template="plain"))
    run.rewrite(GOLD, run.read(GOLD).with_columns(ground_truth=pl.lit('{"answer": "7"}')))
    digest = run.footer(PROMPTS)["digest"]
    run.change_footer(INDEX, lambda footer: footer["inputs"]["prompts"].update(digest=digest))
    return run.root
