"""Memory and minutes that the four rules with a model ask a scheduler for: their resources `mem_mb` and `runtime`.

Both are upper bounds: a scheduler ends a job that hangs or leaks, and no other job. They are no forecast, since every
response is taken to be as long as `max_tokens` allows and the machine to be slow. Where the model is not known they are
no bounds: 8 GB for each process, and an hour.
`--set-resources train_segment:runtime=1440` overrides them, as docs/cluster.md explains.

They depend on the configuration, on the number of prompts and on the base model's config.json. No clock and no GPU is
asked.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, cast

import polars as pl

from dphrl.config.blocks.sampling import DrawingStage, Plan
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError
from dphrl.plan.describe import shape_of
from dphrl.plan.memory import (
    GB,
    ModelShape,
    Phase,
    Setting,
    base_phase,
    host_bytes,
    phases,
    policy_bytes,
    reference_phase,
    sampling_phase,
    without_gpu,
)
from dphrl.plan.work import (
    PLANS,
    REACHED,
    Sizes,
    Stage,
    base_stage,
    prompts_of,
    reference_stage,
    samples_stage,
    training_stage,
)
from dphrl.policy.requests import REQUESTS_PER_PART

# Processes of a job on one node, at most: nodes have 8 GPUs. More ranks are spread over nodes.
_RANKS_PER_NODE: Final = 8
# Bytes of a process without its model: twice the 3.3 GB of a training with vLLM on two CPU cores, with room for CUDA's
# libraries, NCCL and pinned buffers, which were not measured.
_PROCESS: Final = 8 * GB
# Bytes of a worker that judges answers; 0.2 GB were measured.
_WORKER: Final = GB / 2
# Bytes of a drawn token until its part of a sampling job is written: Python's numbers and lists in vLLM's log-probs.
_TOKEN: Final = 200

# A slow machine reaches a fifth of the operations/s of `REACHED`.
_SLOWER: Final = 5
# Parameters x tokens/s that an engine draws on such a machine. Responses of `max_tokens` are several times as long as
# real ones: with half of these speeds, a segment of llama-sql would ask for more than two days.
_GENERATION: Final = {
    "core": {"vllm": 0.94e9, "transformers": 1.5e9},
    "GPU": {"vllm": 1e13, "transformers": 1e12},
}
# Minutes of each job besides its tokens: compiled kernels, and weights and states on a slow network file system.
_START: Final = 60
_STEP: Final = 60.0  # seconds of a training step in addition to its tokens: scoring, push, the longest response


class Limits:
    """The limits of a run. Files are read when a limit is asked for; a file that cannot be read raises nothing.

    Args:
        config: of the run.
        folder: of the run's files, its datasets and the base model.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._unit = "GPU" if config.gpu_gib else "core"

    def memory_mb(self, rule: str) -> int:
        """Host memory of a job of this rule on each of its nodes, in MB (10^6 bytes).

        Each process needs memory for itself, for the weights that it reads, and with `offload_optimizer` for the
        optimizer's state. On a machine without GPUs it also needs the memory that would be on a GPU.
        """
        hardware = self._config.hardware
        ranks = {"sample": hardware.tensor_parallel, "tensorise": hardware.reference_ranks}
        ranks |= {"train_segment": hardware.ranks}
        each = _PROCESS + (self._bytes(rule, self._shape) if self._shape else 0)
        return math.ceil(min(ranks.get(rule, 1), _RANKS_PER_NODE) * each / 1e6)

    def minutes(self, rule: str, **wildcards: str) -> int:
        """Minutes of a job of this rule; those of its start alone where a file cannot be read.

        Args:
            rule: sample, tensorise, train_segment or train_base.
            wildcards: `dataset` and `plan` of `sample`, `stored` of `tensorise`, `method` of `train_segment`; others
                have no effect.
        """
        shape = self._shape
        if shape is None:
            return _START
        try:
            stage = self._stage(rule, wildcards, shape)
        except (OSError, ValueError, pl.exceptions.PolarsError):
            return _START  # the job that reads the file names its fault
        engine = self._config.engine.name_of(cast(DrawingStage, wildcards.get("plan", "rollouts")))
        drawing = shape.parameters * stage.drawn / _GENERATION[self._unit][engine]
        passing = (stage.operations - 2 * shape.parameters * stage.drawn) * _SLOWER / REACHED[self._unit]
        steps = self._config.train.segment_steps if rule == "train_segment" else 0
        seconds = (drawing + passing) / (stage.jobs * stage.gpus) + _STEP * steps
        return _START + math.ceil(seconds / 60)

    @cached_property
    def _shape(self) -> ModelShape | None:
        """The shape of the base model; None without a model, or where its config.json does not say it."""
        try:
            return shape_of(self._config, self._folder)
        except (OSError, ValueError, ConfigError):
            return None

    def _bytes(self, rule: str, shape: ModelShape) -> float:
        """Bytes of one process: the weights that it reads, its results, and without a GPU what would be on one."""
        config, setting = self._config, Setting.of(self._config, None, shape)
        if rule == "train_base" and (training := config.base_training):
            return base_phase(shape, training).total
        weights = policy_bytes(shape, setting)
        if rule == "sample":
            longest = max(getattr(config.sampling, plan).max_tokens for plan in PLANS)
            return weights + REQUESTS_PER_PART * longest * _TOKEN + self._without_gpu([sampling_phase(shape, setting)])
        if rule == "tensorise":
            return weights + self._without_gpu([reference_phase(shape, setting)])
        settings = [Setting.of(config, method, shape) for method in config.methods]
        # A reference model is read in addition to the policy.
        largest = max(
            weights * (1 + setting.reference) + host_bytes(shape, setting) + self._without_gpu(phases(shape, setting))
            for setting in settings
        )
        return largest + config.scoring.of(config.datasets[config.train_dataset].task).workers * _WORKER

    def _without_gpu(self, together: list[Phase]) -> float:
        return without_gpu(together) if self._unit == "core" else 0.0

    def _stage(self, rule: str, wildcards: Mapping[str, str], shape: ModelShape) -> Stage:
        """The work of a rule, with responses as long as possible: all prompts of a dataset, one segment of a method."""
        config, dataset = self._config, wildcards.get("dataset", self._config.train_dataset)
        if rule == "train_base":
            return base_stage(config, shape)
        count, tokens = prompts_of(config, dataset, self._folder)
        sizes = Sizes({dataset: count}, {dataset: tokens}, {}, {"reference": count}, share_of_rounds=1)
        if rule == "sample":
            plan = cast(Plan, wildcards["plan"])
            sizes.response_tokens[dataset] = getattr(config.sampling, plan).max_tokens
            return samples_stage(config, plan, shape, sizes, [dataset])
        if rule == "tensorise":
            stored = wildcards["stored"]
            sizes.response_tokens[dataset] = max(
                config.sampling.refine.max_tokens, config.sampling.presample.max_tokens
            )
            rows = count * config.stored[stored].rows_per_question
            return reference_stage(config, shape, replace(sizes, stored={stored: rows}))
        sizes.response_tokens[dataset] = config.train.max_tokens
        # Subsets of equal size give the largest number of probes.
        sizes = replace(sizes, stored={"reference": count / 2})
        return training_stage(config, wildcards["method"], shape, sizes, 1, config.train.segment_steps)
