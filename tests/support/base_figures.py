"""Figures of a base model of the default world, in short: 24 plain and 60 ambiguous in-domain questions."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import polars as pl

from dphrl.config.load import read_config
from dphrl.data.tokens import load_tokenizer
from dphrl.evaluation.estimator import pass_at_k
from dphrl.policy.engines import make_engine
from dphrl.policy.requests import SamplingPlan
from dphrl.scoring.factory import make_scorer
from dphrl.toy.databases import TRAINING_DATABASES, Oracle, write
from dphrl.toy.questions import PREFIXES, draw_split
from dphrl.toy.world import TEST_LOTS

DEFAULT = Path(__file__).resolve().parents[2] / "config" / "config.yaml"
_QUESTIONS = {"plain": 24, "ambiguous": 60}


def base_figures(policy: Path, folder: Path) -> dict[str, float]:
    """Mean pass@8 and pass@16 in per cent, styles and radii among 16 samples, by the engine and scorer of the product.

    Args:
        policy: the base model.
        folder: where the databases are written.
    """
    config = read_config(DEFAULT)
    assert config.toy
    with closing(Oracle(config.toy.seed)) as oracle:
        for name, connection in oracle.connections.items():
            write(connection, folder / name / f"{name}.sqlite")
        numbers = config.toy.test_strata.numbers(config.toy.questions.in_domain)
        drawn = draw_split("in_domain", numbers, TRAINING_DATABASES, TEST_LOTS, config.toy.seed, oracle)
    strata = {name: [one for one in drawn if one.stratum == name][:number] for name, number in _QUESTIONS.items()}
    by_prompt = {question.prompt: question for some in strata.values() for question in some}
    tokenizer = load_tokenizer(policy)
    tokens = [tokenizer(prompt)["input_ids"] for prompt in by_prompt]
    engine = make_engine(policy, config.engine.model_copy(update={"name": "transformers"}), config.hardware)
    plan = config.sampling.evaluate.model_copy(update={"greedy": False, "n": 16})
    samples = []
    # Free, then each response begun as the style that most answers have.
    for begin in ("", PREFIXES["plain"].rstrip()):
        begun = [ids + tokenizer(begin)["input_ids"] for ids in tokens]
        sampled = SamplingPlan(f"forced/{begin}" if begin else "evaluate", plan, config.seed)
        requests = sampled.requests(zip(by_prompt, begun, strict=True))
        texts = [begin + completion.text for completion in engine.generate(requests)]
        asked = [by_prompt[request.prompt_id] for request in requests]
        truths = [{"db_id": one.database, "gold_sql": one.sql} for one in asked]
        with make_scorer("sql", config.scoring.sql.model_dump(exclude={"workers"}), databases=folder) as scorer:
            verdicts = scorer.score(texts, truths)
        samples.append(
            pl.DataFrame(
                {
                    "prompt": [one.prompt for one in asked],
                    "level": [one.stratum for one in asked],
                    "correct": [verdict.correct for verdict in verdicts],
                    "style": [_style(text) for text in texts],
                    "radius": [_radius(text) for text in texts],
                }
            )
        )
    free, forced = (
        one.group_by("prompt", "level").agg(
            n=pl.len(),
            c=pl.col("correct").sum(),
            styles=pl.col("style").n_unique(),
            radii=pl.col("radius").drop_nulls().n_unique(),
        )
        for one in samples
    )
    ambiguous = free.filter(level="ambiguous")
    return {
        "plain": _passes(free.filter(level="plain"), 16),
        "ambiguous@8": _passes(ambiguous, 8),
        "ambiguous@16": _passes(ambiguous, 16),
        "forced plain": _passes(forced.filter(level="plain"), 16),
        "forced ambiguous": _passes(forced.filter(level="ambiguous"), 16),
        "styles": float(ambiguous["styles"].to_numpy().mean()),
        "radii": float(ambiguous["radii"].to_numpy().mean()),
    }


def _passes(counts: pl.DataFrame, k: int) -> float:
    return 100 * float(pass_at_k(counts["n"].to_numpy(), counts["c"].to_numpy(), k).mean())


def _style(text: str) -> str:
    return next((style for style, prefix in PREFIXES.items() if text.startswith(prefix)), "other")


def _radius(text: str) -> str | None:
    found = re.search(r"(?i)ABS\(\w+ - \d+\) <= (\d+)", text)
    return found[1] if found else None
