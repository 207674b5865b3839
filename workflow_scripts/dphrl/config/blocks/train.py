"""The training of one method with one seed, as a chain of segments."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Dtype

Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainConfig(Block):
    """Configuration of the block `train` (defaults: arXiv 2509.07430, Table 7, Llama on SQL)."""

    seeds: list[Annotated[int, Field(ge=0)]] = Field(
        [1], min_length=1, description="One training per method and seed (data order, rollouts)."
    )
    steps: int = Field(208, ge=1, description="Learning steps; more of them later go on from the last ones.")
    segment_steps: int = Field(
        26, ge=1, description="Steps per job: what a crash or a walltime limit costs. Divides steps and eval_every."
    )
    eval_every: int = Field(
        52, ge=1, description="Steps between two policies that are kept and evaluated. Divides steps."
    )
    prompts_per_step: int = Field(128, ge=1, description="Prompts that are rolled out in each step.")
    rollouts_per_prompt: int = Field(16, ge=2, description="Responses per prompt: the group of the advantage.")
    rehearsal_per_step: int = Field(
        256, ge=1, description="Stored responses of D_pef in each step, for the methods with a divergence."
    )
    epochs: int = Field(1, ge=1, description="Passes over the rollouts of a step (PPO epochs).")
    mini_batches: int = Field(
        2, ge=1, description="Optimizer updates per pass. Divides prompts_per_step and rehearsal_per_step."
    )
    temperature: float = Field(1.0, gt=0, description="Temperature of the rollouts.")
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Nucleus of the rollouts; below 1 (paper: 0.95) they are not samples of the policy.",
    )
    max_tokens: int = Field(4096, ge=1, description="Longest rollout in tokens.")
    lr: float = Field(1e-6, gt=0, description="Learning rate of AdamW, constant after the warm-up.")
    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises linearly.")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="Decay rates of AdamW's two moments.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW.")
    clip_grad_norm: float = Field(1.0, gt=0, description="Norm to which the gradient of an update is clipped.")
    eps_low: float = Field(0.2, gt=0, lt=1, description="Lower clip of the policy ratio is 1 - eps_low.")
    dual_clip: float | None = Field(
        3.0, gt=1, description="Bound of the loss of a token with negative advantage, in advantages; null: none."
    )
    tis_cap: float | None = Field(
        None,
        gt=0,
        description="Truncated importance sampling: a token's policy loss is weighted by min(pi_old / pi_sampler, "
        "cap), against the mismatch of engine and trainer; needs top_p 1 and temperature 1. null: it is only measured.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the forward and backward pass.")
    ranks: int = Field(
        1, ge=1, description="Processes that share a training, one per GPU; divides prompts_per_step / mini_batches."
    )
    zero_stage: Literal[0, 1, 2, 3] = Field(
        1,
        description="DeepSpeed ZeRO, what is spread over the ranks: 1 the optimizer, 2 gradients too, 3 weights too, "
        "0 nothing.",
    )
    offload_optimizer: bool = Field(False, description="Keep the optimizer's state in the memory of the CPU.")
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: less memory for a third more work."
    )
    prompt_sharing: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Train the responses of a prompt in one sequence that holds the prompt once; auto: where it saves "
        "work.",
    )
    rehearsal_norm: Literal["joint", "separate"] = Field(
        "joint",
        description="joint: all sequences of a mini-batch share one mean, so that the rehearsal weighs eta * N_pef / "
        "N_exp (the published numbers); separate: each part has its own mean, and eta is the weight.",
    )
    token_budget: int = Field(32384, ge=1, description="Most tokens per forward and backward pass of one rank.")
    canary_tolerance: float | None = Field(
        None,
        gt=0,
        description="Largest difference, in nats, between the engine's and the trainer's log-probabilities of a fixed "
        "text after a weight push; beyond it training stops. null: 1e-4 in float32, and in bfloat16 three times that "
        "of the weights that a segment starts from.",
    )
    trackers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = Field(
        (), description="Where metrics go beside the parquet table, while training runs; each needs its own package."
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
