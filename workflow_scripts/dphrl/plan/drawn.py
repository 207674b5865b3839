"""Answers of a model to a few questions, drawn before its first configuration: which limits and rule fit it."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from dphrl.config import slices
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.config.config import Config
from dphrl.data.gold import gold_of
from dphrl.data.prepare import prepare
from dphrl.data.records import read_source
from dphrl.data.tokens import encoder
from dphrl.hub import data_name, model_name, one_file, snapshot
from dphrl.machine.progress import counted
from dphrl.policy.check_model import check_base
from dphrl.policy.limited import run_limited
from dphrl.policy.logprobs import device_of_job, use_free_cores
from dphrl.policy.requests import SamplingPlan, rollout_frame
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict_tables import score_rollouts

_QUESTIONS: Final = 16
_SAMPLES: Final = 8
# Values of `scoring.<task>.answer`, the default first; a custom scorer has none.
_RULES: Final = {"math": ("boxed", "final"), "sql": ("fenced", "bare")}
# Tokens of the longest answer that is waited for.
_PATIENCE: Final = {"cpu": 512, "cuda": 2048}
# Rows of which the questions are taken, from all of the file.
_LOOKED_AT: Final = 2000
# A limit is so many times the longest length, since answers may grow in training, and a multiple of 64 tokens.
_ROOM, _MULTIPLE = 1.5, 64
# With more answers cut off than this share, their lengths say little.
_CUT: Final = 0.05


@dataclass(frozen=True)
class Drawn:
    """Limits and the place of an answer, by answers of the model.

    Attributes:
        rule: the value of `scoring.<task>.answer` with the most right answers; "" for a custom scorer.
        response_tokens: limit for responses; None where too many answers were cut off.
        report: lines for the user.
    """

    rule: str
    response_tokens: int | None
    report: str


def draw(config: Config, folder: Path) -> Drawn:
    """Draw eight answers to each of sixteen training questions, and score them by each rule for the place of an answer.

    Args:
        config: a first configuration.
        folder: where relative paths start.

    Raises:
        ValueError, OSError: the model cannot be read, or no row is a prompt.
    """
    train = config.train_dataset
    assert train is not None
    dataset = config.datasets[train]
    databases = folder / dataset.database_folder if dataset.database_folder else None
    fields = {str(ours): theirs for ours, theirs in dataset.fields.items()}
    hub = data_name(dataset.source)
    source = one_file(hub, hub.file, online=True) if hub else folder / dataset.source
    assert source is not None
    rows = read_source(source)
    rows = rows[:: math.ceil(len(rows) / _LOOKED_AT)]
    limit = min(_PATIENCE[device_of_job()], config.sampling.presample.max_tokens)
    use_free_cores()
    started = time.perf_counter()
    base = config.policy.base or ""
    model = model_name(base, folder)
    policy = snapshot(model, model.patterns)[0] if model else folder / base
    run_limited(check_base, policy)
    encode, longest = encoder(policy, config.prompts.template), config.prompts.max_tokens
    prepared = prepare(
        rows,
        dataset.task,
        source.name,
        encode,
        longest,
        databases=databases,
        fields=fields,
        thoughts=config.scoring.thoughts,
        prefill=dataset.prefill,
    )
    prompts = prepared.prompts.sort("prompt_id").head(_QUESTIONS)
    plan = PlanConfig(**config.sampling.presample.model_dump() | {"n": _SAMPLES, "max_tokens": limit})
    asked = prompts.select("prompt_id", "prompt_token_ids").iter_rows()
    requests = SamplingPlan("presample", plan, config.seed).requests(asked)
    engine = TransformersEngine(policy, config.engine, config.hardware)
    answers = rollout_frame(requests, engine.generate(requests, "answers"))
    seconds = time.perf_counter() - started

    gold = gold_of(prompts, prepared.rejected, rows, dataset.task, comparison=dataset.comparison, fields=fields)
    block, custom = slices.gold(config, train)["scorer"], config.scoring.custom.get(dataset.task)
    scorer_file = folder / custom.source if custom else None
    verdicts = dict[str, pl.DataFrame]()
    for rule in _RULES.get(dataset.task, ("",)):
        settings = block | ({"answer": rule} if rule else {})
        with make_scorer(dataset.task, settings, databases=databases, source=scorer_file) as scorer:
            verdicts[rule] = score_rollouts(answers, gold, prompts, scorer, config.scoring.thoughts)
    rule = max(verdicts, key=lambda rule: (_right(verdicts[rule]), -_without(verdicts[rule])))
    cut_off = pl.col("finish_reason") == "length"
    lengths, cut = answers["token_ids"].list.len(), answers.select(cut_off.mean()).item()
    report = [
        f"{answers.height} answers to {prompts.height} questions, drawn in {seconds:,.0f} s:"
        f" {sum(lengths) / answers.height:,.0f} tokens on average, {cut:.0%} cut off at {limit:,}",
        *_findings(verdicts, rule, dataset.task, config.partition.pef_min_correct),
    ]
    if cut > _CUT:
        report.append("Too many were cut off, so the limits of responses are still the paper's.")
        return Drawn(rule, None, "\n".join(report))
    # A few answers without an end set no limit.
    ended = answers.filter(~cut_off)["token_ids"].list.len()
    response = _MULTIPLE * math.ceil(_ROOM * max(ended) / _MULTIPLE)
    report.append(f"  limit of responses: {response:,} tokens, {_ROOM} times the longest answer that ended")
    return Drawn(rule, response, "\n".join(report))


def _right(verdicts: pl.DataFrame) -> float:
    return float(verdicts.select(pl.col("correct").mean()).item())


def _without(verdicts: pl.DataFrame) -> float:
    return float(verdicts.select((pl.col("verdict") == "no_answer").mean()).item())


def _findings(verdicts: Mapping[str, pl.DataFrame], rule: str, task: str, threshold: int) -> Iterator[str]:
    """Shares of right answers by each rule, and how the questions would be divided."""
    for tried, judged in verdicts.items():
        key = f"scoring.{task}.answer: {tried}" if tried else f"task {task}"
        yield f"  {key}: {_right(judged):.0%} right, {_without(judged):.0%} without an answer"
    right = verdicts[rule].group_by("prompt_id").agg(pl.col("correct").sum())["correct"]
    near, never = int((right >= threshold).sum()), int((right == 0).sum())
    near_perfect = f"{counted(near, 'question')} near-perfect (at least {threshold} of {_SAMPLES})"
    yield f"  {near_perfect}, {never} without a right answer"
    if never == len(right):
        yield "  RL cannot start from this model: no answer is right (docs/how-to/supervised-start.md)"
    elif not near:
        yield (
            "  DPH-RL may have nothing to rehearse: lower partition.pef_min_correct, or give the model a supervised"
            " start (docs/how-to/supervised-start.md)"
        )
