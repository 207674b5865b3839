"""The block `evaluate`: evaluation sets, metrics and intervals."""

from itertools import combinations
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from dphrl.config.blocks.base import Block, Count, Text

OTHER_STYLE = "other"
PublishedSetting = Literal["llama-sql", "omnisql-sql", "llama-sql-maths", "llama-math", "qwen-math"]


class StyleRule(Block):
    """One solution style, identified by the start of a response."""

    name: Text = Field(..., description="Name of the style in tables and figures.")
    prefix: Text = Field(..., description="Text that a response of this style starts with; case matters.")

    @field_validator("name")
    @classmethod
    def _name_is_not_reserved(cls, name: str) -> str:
        if name == OTHER_STYLE:
            raise ValueError(
                f"the name {OTHER_STYLE!r} is reserved for responses that match no prefix: choose another name"
            )
        return name


class BootstrapConfig(Block):
    """Configuration of the bootstrap."""

    replicates: int = Field(2000, ge=100, description="Number of bootstrap replicates.")
    confidence: float = Field(0.95, gt=0.0, lt=1.0, description="Confidence level of all intervals.")


class ClaimsConfig(Block):
    """When a claim of the paper counts as decided."""

    min_seeds: int = Field(3, ge=2, description="Fewest training seeds whose t interval decides a claim.")


class EvaluateConfig(Block):
    """Configuration of the block `evaluate`."""

    datasets: tuple[str, ...] = Field(("bird", "spider"), min_length=1, description="Names of the evaluation sets.")
    k: tuple[Count, ...] = Field(
        (1, 2, 4, 8, 16),
        min_length=1,
        description="Values of k for pass@k, ascending. A dataset uses those up to its number of samples "
        "(sampling.evaluate); headline tables show the two largest.",
    )
    styles: dict[str, tuple[StyleRule, ...]] = Field(
        {}, description="Solution styles by task; the first matching prefix decides, no match gives 'other'."
    )
    bootstrap: BootstrapConfig = Field(BootstrapConfig(), description="Intervals, by resampling prompts.")
    against: tuple[str, ...] = Field(
        ("base", "grpo", "exp_only"), description="Baselines for other methods; each is compared with those before it."
    )
    claims: ClaimsConfig = Field(ClaimsConfig(), description="When a claim of the paper counts as decided.")
    published: PublishedSetting | None = Field(
        None,
        description="Experiment of the paper that this run reproduces, by the name of its file in config/experiments: "
        "tables and figures then show the published numbers next to the measured ones; null: none.",
    )

    @field_validator("datasets")
    @classmethod
    def _datasets_are_distinct(cls, datasets: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(datasets)) != len(datasets):
            raise ValueError(f"{list(datasets)} names a dataset twice: name each once")
        return datasets

    @field_validator("k")
    @classmethod
    def _k_is_ascending(cls, k: tuple[int, ...]) -> tuple[int, ...]:
        if list(k) != sorted(set(k)):
            raise ValueError(f"{list(k)} is not strictly ascending: write {sorted(set(k))}")
        return k

    @model_validator(mode="after")
    def _every_style_is_reachable(self) -> Self:
        for task, rules in self.styles.items():
            for earlier, rule in combinations(rules, 2):
                if rule.name == earlier.name:
                    raise ValueError(f"styles.{task} names {rule.name!r} twice: name each style once")
                if rule.prefix.startswith(earlier.prefix):
                    raise ValueError(
                        f"styles.{task}: {rule.name!r} can never match, as {earlier.name!r} before it takes every"
                        f" response that starts with {earlier.prefix!r}: put {rule.name!r} first"
                    )
        return self
