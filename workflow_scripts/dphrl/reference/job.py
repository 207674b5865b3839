"""A job of the reference stage: what it reads, and what computes the log-probs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from dphrl.artifacts.tables import by_prompts
from dphrl.config.blocks.base import Dtype
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.reference.build import reference_rows


@dataclass(frozen=True)
class ReferenceJob:
    """Inputs, output and settings of the stage, as JSON can hold them.

    Attributes:
        policy: folder of the base policy.
        dtype, topk_logprobs: the stage's slice of the configuration.
        hardware: the block `hardware`.
        partition, prompts, rollouts: files of these tables, already checked.
        output: the tensors.
        label: of messages.
    """

    policy: str
    dtype: Dtype
    topk_logprobs: int
    hardware: Mapping[str, Any]
    partition: str
    prompts: str
    rollouts: list[str]
    output: str
    label: str

    @cached_property
    def machine(self) -> HardwareConfig:
        """The block `hardware`."""
        return HardwareConfig(**self.hardware)

    def parts(self) -> Iterator[pl.DataFrame]:
        """The rows of D_pef, in parts as `tensorise` takes them."""
        tables = (pl.scan_parquet(files, glob=False) for files in (self.partition, self.prompts, self.rollouts))
        return (reference_rows(*of_prompts) for of_prompts in by_prompts(*tables))
