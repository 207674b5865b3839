"""The `evaluate` block: what is measured on every policy."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dphrl.config.blocks.base import Block

OTHER_STYLE = "other"
PublishedSetting = Literal["llama-sql", "omnisql-sql", "llama-sql-maths", "llama-math", "qwen-math"]


class StyleRule(Block):
    """One solution style, recognised by the text that a response starts with."""

    name: str = Field(..., min_length=1, description="Name of the style in tables and figures.")
    prefix: str = Field(
        ..., min_length=1, description="Text that a response of this style starts with, case-sensitive."
    )

    @field_validator("name")
    @classmethod
    def _name_is_not_reserved(cls, name: str) -> str:
        if name == OTHER_STYLE:
            raise ValueError(
                f"the name {OTHER_STYLE!r} is kept for responses that match no prefix: choose another name"
            )
        return name


class BootstrapConfig(Block):
    """Resampling of prompts for the intervals."""

    replicates: int = Field(2000, ge=100, description="Number of bootstrap replicates, each a resample of prompts.")
    confidence: float = Field(0.95, gt=0.0, lt=1.0, description="Coverage of every interval in tables and figures.")


class ClaimsConfig(Block):
    """When a claim of the paper counts as decided."""

    min_seeds: int = Field(3, ge=2, description="Fewest training seeds whose t interval decides a claim.")


class EvaluateConfig(Block):
    """Evaluation sets, the k of pass@k, solution styles and intervals."""

    datasets: tuple[str, ...] = Field(
        ("bird", "spider"), min_length=1, description="Names of the datasets on which policies are evaluated."
    )
    k: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 2, 4, 8, 16),
        min_length=1,
        description="Values of k for pass@k, ascending; a dataset has those up to its number of samples"
        " (sampling.evaluate), its headline the two largest.",
    )
    styles: dict[str, tuple[StyleRule, ...]] = Field(
        {},
        description="Solution styles by task; the first prefix that matches names the style, anything else is 'other'.",
    )
    bootstrap: BootstrapConfig = Field(BootstrapConfig(), description="Resampling of prompts for the intervals.")
    against: tuple[str, ...] = Field(
        ("base", "grpo", "exp_only"),
        description="Methods that all others are compared with; among themselves each with those before it.",
    )
    claims: ClaimsConfig = Field(ClaimsConfig(), description="When a claim of the paper counts as decided.")
    published: PublishedSetting | None = Field(
        None,
        description="The paper's setting that this run repeats, by the name of its file in config/experiments: the "
        "published numbers then stand beside ours in tables and figures, labelled as such; null: ours alone.",
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
            for position, rule in enumerate(rules):
                for earlier in rules[:position]:
                    if rule.name == earlier.name:
                        raise ValueError(f"styles.{task} names {rule.name!r} twice: name each style once")
                    if rule.prefix.startswith(earlier.prefix):
                        raise ValueError(
                            f"styles.{task}: {rule.name!r} can never match, as {earlier.name!r} before it takes every"
                            f" response that starts with {earlier.prefix!r}: put {rule.name!r} first"
                        )
        return self
