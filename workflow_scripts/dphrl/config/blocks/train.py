"""The block `train`: the training of a method with a seed, as a chain of segments."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Count, Dtype, Positive, Share, Whole

Beta = Annotated[float, Field(ge=0, lt=1)]


class ProbeConfig(Block):
    """Configuration of `train.probe`: a fixed sample of prompts that the policy answers while it is trained."""

    every: Count = Field(52, description="Steps between two measurements; the first is before any update.")
    prompts: Whole = Field(64, description="Prompts of D_pef and as many of D_exp; 0: nothing is measured.")
    samples: Count = Field(4, description="Answers per prompt, drawn like the rollouts.")
    gradient: bool = Field(
        False,
        description="Also measure how much of the gradient is the divergence's. Needs memory for two more gradients, "
        "and a zero_stage below 3.",
    )


class TrainConfig(Block):
    """Configuration of the block `train` (defaults: arXiv 2509.07430, Table 7, Llama on SQL)."""

    seeds: list[Whole] = Field([1], min_length=1, description="Seeds of data order and rollouts, one training each.")
    draws: Literal["per_seed", "shared"] = Field(
        "per_seed",
        description="Pre-samples, partition and stored responses of each training seed. per_seed: the first of `seeds` "
        "has those of the run's seed, each other one its own, which all methods share; intervals then hold this chance "
        "too. shared: all seeds have those of the run's seed, for runs where pre-sampling is too dear. Recorded "
        "answers of the base are always shared.",
    )
    steps: Count = Field(
        208, description="Training steps of methods that name none; a larger number continues a finished training."
    )
    segment_steps: Count = Field(26, description="Steps per job: the most that a crash costs. Divides eval_every.")
    eval_every: Count = Field(52, description="Steps between two policies that are saved and evaluated. Divides steps.")
    keep_state: Literal["newest", "all"] = Field(
        "newest",
        description="newest: an optimizer state, or a policy that is not evaluated, is removed when the segment after "
        "the next one starts and at the end of a run; all: none is removed, so any segment can be run again by itself.",
    )
    prompts_per_step: Count = Field(128, description="Prompts with rollouts per step.")
    rollouts_per_prompt: int = Field(16, ge=2, description="Rollouts per prompt: the group of the advantages.")
    rehearsal_per_step: Count = Field(256, description="Stored responses of D_pef per step, for methods that use them.")
    ppo_epochs: Count = Field(1, description="Passes over the rollouts of a step.")
    mini_batches: Count = Field(2, description="Updates per pass. Divides prompts_per_step and rehearsal_per_step.")
    temperature: Positive = Field(1.0, description="Sampling temperature of the rollouts.")
    top_p: Share = Field(1.0, description="Nucleus; below 1 (paper: 0.95) rollouts are not samples of the policy.")
    max_tokens: Count = Field(4096, description="Maximum length of a rollout in tokens.")
    lr: Positive = Field(1e-6, description="Learning rate of AdamW, constant after the warm-up.")
    warmup_steps: Whole = Field(0, description="Steps of linear warm-up of the learning rate.")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="Decay rates of AdamW's two moments.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW.")
    clip_grad_norm: Positive = Field(1.0, description="Maximum norm of the gradient of an update.")
    eps_low: float = Field(0.2, gt=0, lt=1, description="Lower clip of the policy ratio is 1 - eps_low.")
    dual_clip: float | None = Field(
        3.0, gt=1, description="Dual clip: largest loss of a token with negative advantage, per |advantage|; null: off."
    )
    tis_cap: float | None = Field(
        None,
        gt=0,
        description="Truncated importance sampling, which corrects for the mismatch between engine and trainer: a "
        "token's policy loss is weighted by min(pi_old / pi_sampler, tis_cap). Needs top_p 1 and temperature 1. null: "
        "the mismatch is only measured.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the forward and backward pass.")
    rehearsal_norm: Literal["joint", "separate", "tokens"] = Field(
        "joint",
        description="joint: one mean over all sequences of a mini-batch, so the effective weight of rehearsal is eta "
        "* N_pef / N_exp (as published); separate: one mean for each part, so the weight is eta; tokens: one mean over "
        "all response tokens, so the weight is eta * T_pef / T_exp.",
    )
    probe: ProbeConfig = Field(ProbeConfig(), description="What is measured on D_pef and D_exp during training.")
    trackers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = Field(
        (), description="Live trackers of metrics, in addition to the parquet table; each needs its Python package."
    )

    @model_validator(mode="after")
    def _seeds_are_distinct(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise PydanticCustomError("seeds_repeated", "each seed once in `seeds`")
        return self

    @model_validator(mode="after")
    def _tis_needs_untruncated_sampling(self) -> Self:
        if self.tis_cap is not None and (self.top_p < 1 or self.temperature != 1):
            raise PydanticCustomError(
                "tis_needs_untruncated_sampling",
                "top_p 1 and temperature 1 with tis_cap: pi_old and pi_sampler must be the same softmax",
            )
        return self
