"""The block `hardware`: the machine. Its keys change memory, speed and rounding, so changing them reruns nothing."""

from typing import Literal, Self

from pydantic import Field

from dphrl.config.blocks.base import Block, Count, Positive


class HardwareConfig(Block):
    """Configuration of the block `hardware`."""

    gpu_gib: Positive | None = Field(
        80,
        description="Memory of a GPU in GiB: a run whose jobs cannot fit is refused before anything runs; null: "
        "no job asks for a GPU.",
    )
    ranks: Count = Field(
        1,
        description="Processes of a training, one per GPU; with zero_stage 3 of the reference too. Divides "
        "train.prompts_per_step / train.mini_batches. For a method with `dynamic_sampling_rounds` it also decides "
        "which prompts replace others, so there it reruns the training.",
    )
    zero_stage: Literal[0, 1, 2, 3] = Field(
        1, description="ZeRO stage: the ranks divide 0 nothing, 1 optimizer state, 2 also gradients, 3 also weights."
    )
    offload_optimizer: bool = Field(False, description="Keep the optimizer state in CPU memory.")
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations in the backward pass: less memory for about a third more computation."
    )
    attention: Literal["auto", "packed", "padded"] = Field(
        "auto",
        description="Rows of a forward pass behind each other without padding, or padded; auto: packed in bfloat16 on "
        "a GPU where the model allows it.",
    )
    prompt_sharing: Literal["auto", "on", "off"] = Field(
        "auto", description="Train the responses to a prompt in one sequence; auto: where it saves computation."
    )
    token_budget: Count = Field(
        32384, description="Most tokens per forward and backward pass of one rank, in the reference and in training."
    )
    canary_tolerance: float | None = Field(
        None,
        gt=0,
        description="After each push of weights into the engine, its log-probabilities of fixed texts are compared "
        "with the trainer's; training stops if they differ by more than this, in nats: the largest difference in "
        "float32, the mean in bfloat16. null: 1e-4 in float32; in bfloat16 three times the difference at the start of "
        "the segment, with adapters of weights that are rounded once more.",
    )
    tensor_parallel: Count = Field(
        1, description="GPUs that share one vllm engine; in training these are ranks, so it divides ranks."
    )
    max_num_seqs: Count = Field(256, description="Maximum number of sequences that an engine decodes at the same time.")
    sampling_max_num_seqs: Count = Field(
        1024, description="The same for sampling jobs with vllm on a GPU, in which no trainer shares the memory."
    )
    kv_cache_gib: Positive = Field(
        24, description="Memory for the key-value cache in GiB: vllm allocates it at the start, transformers as needed."
    )
    sampling_kv_cache_gib: Positive | None = Field(
        None,
        description="The same for sampling jobs. null: with vllm on a GPU what weights and buffers leave of 92 % of "
        "its memory, which must be free at the start; else kv_cache_gib.",
    )

    @property
    def reference_ranks(self) -> int:
        """Processes that compute the stored log-probs: those of training where they divide the weights, else one."""
        return self.ranks if self.zero_stage == 3 else 1

    def for_sampling(self) -> Self:
        """The block with the least key-value cache of sampling jobs."""
        return self.model_copy(update={"kv_cache_gib": self.sampling_kv_cache_gib or self.kv_cache_gib})
