"""A segment as a job: folders in, folders out."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl
import torch

from dphrl.artifacts import replacing_folder
from dphrl.config.engine import EngineConfig
from dphrl.config.methods import MethodConfig
from dphrl.config.train import TrainConfig
from dphrl.model import load_model
from dphrl.reference import ReferenceResponses
from dphrl.rollout import VllmEngine
from dphrl.training.segment import OnlinePrompt, Score, Segment
from dphrl.training.trainer import Trainer, start_process_group

Timing = tuple[str, float, int | None]


@dataclass(frozen=True)
class SegmentConfig:
    """What a segment runs: steps `first` to `last` (both included) of one method with one seed."""

    method: MethodConfig
    train: TrainConfig
    engine: EngineConfig
    seed: int
    first: int
    last: int

    @classmethod
    def parse(cls, config: Mapping[str, Any], seed: int, steps: Sequence[int]) -> Self:
        """From the stage's slice of the config."""
        method, train = MethodConfig(**config["method"]), TrainConfig(**config["train"])
        return cls(method, train, EngineConfig(**config["engine"]), seed, *steps)


def online_prompts(
    partition: pl.DataFrame, prompts: pl.DataFrame, gold: pl.DataFrame, online: Literal["all", "exp"]
) -> list[OnlinePrompt]:
    """The prompts that a method rolls out, in key order: D_exp, or all that were not dropped."""
    subsets = ["exp"] if online == "exp" else ["exp", "pef"]
    rows = (
        partition.filter(pl.col("subset").is_in(subsets))
        .join(prompts, on="prompt_id")
        .join(gold, on="prompt_id")
        .sort("prompt_id")
        .select("prompt_id", "prompt_token_ids", "ground_truth")
    )
    return [OnlinePrompt(prompt_id, tokens, json.loads(truth)) for prompt_id, tokens, truth in rows.iter_rows()]


def train_segment(
    segment: SegmentConfig,
    prompts: Sequence[OnlinePrompt],
    reference: ReferenceResponses | None,
    score: Score,
    policy: Path,
    state: Path | None,
    policy_out: Path,
    state_out: Path,
    label: str,
) -> tuple[pl.DataFrame, list[Timing]]:
    """Run a segment from `policy` and `state` (None: a fresh optimizer) and write what comes after it.

    Returns:
        The metrics table, and the seconds and tokens of each part.

    Raises:
        ValueError: the model's embeddings are tied where the engine would keep a stale head.
    """
    started = time.perf_counter()
    start_process_group()
    engine = VllmEngine(policy, segment.engine, distributed=True)
    model = load_model(policy, segment.train.dtype)
    if model.config.tie_word_embeddings and not torch.cuda.is_available():
        raise ValueError(
            f"{policy}: its embeddings are tied, and vLLM's CPU build keeps the old output head after a weight push;"
            " save the model with tie_word_embeddings false, or train on a GPU"
        )
    trainer = Trainer(model, segment.train, segment.method)
    if state is not None:
        trainer.load_state(state)
    work = Segment(trainer, engine, prompts, reference, score, segment.train, segment.method, segment.seed)
    work.seconds["start"] = time.perf_counter() - started
    metrics = work.run(segment.first, segment.last, label)
    with replacing_folder(policy_out) as folder:
        _save_policy(trainer, policy, folder)
    with replacing_folder(state_out) as folder:
        trainer.save_state(folder)
    return metrics, [(part, seconds, work.tokens.get(part)) for part, seconds in work.seconds.items()]


def _save_policy(trainer: Trainer, before: Path, folder: Path) -> None:
    """The trained weights, with tokenizer and settings copied byte for byte from the policy before."""
    trainer.model.save_pretrained(folder)
    for file in before.iterdir():
        written = {"config.json", "generation_config.json", "manifest.json", "manifest.json.sha256"}
        if file.is_file() and file.name not in written and ".safetensors" not in file.suffixes:
            shutil.copyfile(file, folder / file.name)
