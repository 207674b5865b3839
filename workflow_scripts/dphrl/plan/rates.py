"""How fast the parts of a run go: from the timings of the run where it has some, else from the table of machines."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import polars as pl

from dphrl.config.config import Config
from dphrl.plan.machines import Machine
from dphrl.plan.shape import ModelShape

# Tokens of a row of the corpus on which the toy's base model is trained.
_ROW: Final = 62


# Stage and part of the timings behind each rate.
_SPEEDS: Final = {
    "sample": ("sample", "generate"),
    "rollout": ("train_segment", "generate"),
    "train": ("train_segment", "train"),
}
_SECONDS: Final = {
    "start": ("sample", "start"),
    "train_start": ("train_segment", "start"),
    "base": ("train_base", "total"),
}


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one GPU or core, and seconds of what takes as long for every job.

    Attributes:
        sample, rollout: drawn tokens/s in sampling jobs and in training.
        train: tokens/s of the forward and backward pass, over the tokens of responses.
        start, train_start: seconds until a sampling job and a segment have their models.
        base: seconds that the base model takes; 0 where it is given.
        other: seconds of a job without a model.
    """

    sample: float
    rollout: float
    train: float
    start: float
    train_start: float
    base: float
    other: float

    @classmethod
    def of(cls, machine: Machine, config: Config, shape: ModelShape, prompt_share: float) -> Self:
        """The rates of a machine for a model.

        Args:
            prompt_share: prompt tokens that training computes for each token of a response.
        """
        passes = 8 if config.hardware.gradient_checkpointing else 6
        generation = machine.generation[config.engine.name] / shape.parameters
        base = 0.0
        if config.policy.base is None and config.toy:
            optimizer = config.toy.optimizer
            operations = 6.0 * shape.parameters * optimizer.steps * optimizer.batch * _ROW
            base = operations / (config.toy.threads * machine.training)
        return cls(
            sample=generation,
            rollout=generation,
            train=machine.training / (passes * shape.parameters * (1 + prompt_share)),
            start=machine.start[config.engine.name],
            train_start=machine.start[config.engine.name] + machine.job,
            base=base,
            other=machine.job,
        )

    def measured(self, run: Path) -> Self:
        """These rates, with those that the timings of a run show in their place."""
        files = [path for path in (run / "timings").rglob("*.parquet") if path.name != "training_cost.parquet"]
        if not files:
            return self
        parts = pl.concat(pl.read_parquet(path) for path in files).group_by("stage", "part")
        found = {
            (stage, part): (tokens, seconds, seconds / jobs)
            for stage, part, seconds, tokens, jobs in parts.agg(
                pl.col("seconds").sum(), pl.col("tokens").sum(), jobs=pl.len()
            ).iter_rows()
        }
        speeds = {name: found[key][0] / found[key][1] for name, key in _SPEEDS.items() if key in found}
        return replace(self, **speeds, **{name: found[key][2] for name, key in _SECONDS.items() if key in found})
