"""How fast the parts of a run go: from the timings of the run where it has some, else from the table of machines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, get_args

import polars as pl

from dphrl.config.blocks.sampling import Plan
from dphrl.config.config import Config
from dphrl.plan.machines import Machine
from dphrl.plan.shape import ModelShape

PLANS: Final[tuple[Plan, ...]] = get_args(Plan)
# Tokens of a row of the corpus on which the toy's base model is trained.
_ROW: Final = 62


# Stage, plan and part of the timings behind each rate.
_SPEEDS: Final = {"rollout": ("train_segment", "", "generate"), "train": ("train_segment", "", "train")}
_SECONDS: Final = {"train_start": ("train_segment", "", "start"), "base": ("train_base", "", "total")}


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one GPU or core, and seconds of what takes as long for every job.

    Attributes:
        sample, rollout: drawn tokens/s in the sampling jobs of each plan, and in training.
        train: tokens/s of the forward and backward pass, prompts included.
        start, train_start: seconds until a sampling job of each plan, and a segment, have their models.
        base: seconds that the base model takes; 0 where it is given.
        other: seconds of a job without a model.
    """

    sample: Mapping[Plan, float]
    rollout: float
    train: float
    start: Mapping[Plan, float]
    train_start: float
    base: float
    other: float

    @property
    def forward(self) -> float:
        """Tokens/s of a forward pass alone."""
        return 3 * self.train

    @classmethod
    def of(cls, machine: Machine, config: Config, shape: ModelShape) -> Self:
        """The rates of a machine for a model."""
        passes = 8 if config.hardware.gradient_checkpointing else 6
        rollouts = config.engine.name_of("rollouts")
        engines = {plan: config.engine.name_of(plan) for plan in PLANS}
        base = 0.0
        if config.policy.base is None and config.toy:
            optimizer = config.toy.optimizer
            operations = 6.0 * shape.parameters * optimizer.steps * optimizer.batch * _ROW
            base = operations / (config.toy.threads * machine.training)
        return cls(
            sample={plan: machine.generation[name] / shape.parameters for plan, name in engines.items()},
            rollout=machine.generation[rollouts] / shape.parameters,
            train=machine.training / (passes * shape.parameters),
            start={plan: machine.start[name] for plan, name in engines.items()},
            train_start=machine.start[rollouts] + machine.job,
            base=base,
            other=machine.job,
        )

    def measured(self, run: Path, prompt_share: float) -> Self:
        """These rates, with those that the timings of a run show in their place.

        Args:
            prompt_share: prompt tokens for each token of a response in training; the timings count responses alone.
        """
        files = [path for path in (run / "timings").rglob("*.parquet") if path.name != "training_cost.parquet"]
        if not files:
            return self
        rows = pl.concat(
            pl.read_parquet(path).with_columns(file=pl.lit(path.relative_to(run).as_posix())) for path in files
        )
        plan = pl.col("file").str.extract(rf"\.({'|'.join(PLANS)})/").fill_null("")
        parts = rows.group_by("stage", plan.alias("plan"), "part").agg(
            speed=pl.col("tokens").sum() / pl.col("seconds").sum(), seconds=pl.col("seconds").mean()
        )
        found = {tuple(key): (speed, seconds) for *key, speed, seconds in parts.iter_rows()}
        speeds = {name: found[key][0] for name, key in _SPEEDS.items() if key in found}
        if "train" in speeds:
            speeds["train"] *= 1 + prompt_share
        seconds = {name: found[key][1] for name, key in _SECONDS.items() if key in found}
        sample = {plan: found[key][0] for plan in PLANS if (key := ("sample", plan, "generate")) in found}
        start = {plan: found[key][1] for plan in PLANS if (key := ("sample", plan, "start")) in found}
        return replace(self, **speeds, **seconds, sample={**self.sample, **sample}, start={**self.start, **start})
