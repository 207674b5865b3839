"""The blocks `engine`, `sampling` and `hardware`: how responses are drawn, and the machine for drawing and training."""

from typing import Any, Literal, Self

from pydantic import Field

from dphrl.config.blocks.base import Block, Count, Dtype, Positive, Share, Text, Whole

EngineName = Literal["vllm", "transformers"]
Plan = Literal["presample", "refine", "evaluate"]
# Stages that draw responses: the plans of the block `sampling`, and training.
DrawingStage = Literal[Plan, "rollouts"]


class EngineConfig(Block):
    """Configuration of the block `engine`."""

    name: EngineName = Field(
        "vllm",
        description="vllm, or transformers for CPUs; with one seed they draw different responses.",
    )
    stages: dict[DrawingStage, EngineName] = Field(
        {},
        description="Stages with another engine than `name`, for instance {evaluate: transformers}: the plans "
        "presample, refine and evaluate of sampling, and the rollouts of training. All compared policies have the same "
        "engine. transformers starts sooner, and is faster for small models and short responses.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the engine's weights; must equal train.dtype.")
    max_model_len: int = Field(20480, ge=2, description="Maximum length of a sequence (prompt and response) in tokens.")
    stop: tuple[Text, ...] = Field((), description="Texts that end a response; they are not part of its text.")
    stop_token_ids: tuple[Whole, ...] | None = Field(
        None,
        description="Tokens that end a response, in addition to the tokenizer's EOS and the EOS tokens of "
        "generation_config. null: the end-of-turn token of the chat template.",
    )
    batch_invariant: bool = Field(
        False,
        description="In sampling on a GPU: a response does not depend on other responses of the same batch; slower. "
        "Needs vllm. On a CPU no response ever does. Training ignores it: it would slow down the trainer too.",
    )

    def name_of(self, stage: DrawingStage) -> EngineName:
        """The engine of a stage."""
        return self.stages.get(stage, self.name)

    def of(self, stage: DrawingStage) -> dict[str, Any]:
        """The keys that decide the responses of a stage, with the engine of that stage as `name`."""
        exact = self.batch_invariant and stage != "rollouts"
        return {
            **self.model_dump(mode="json", exclude={"stages"}),
            "name": self.name_of(stage),
            "batch_invariant": exact,
        }


class PlanConfig(Block):
    """Configuration of one plan of the block `sampling`."""

    n: Count = Field(8, description="Samples per prompt.")
    temperature: Positive = Field(1.0, description="Sampling temperature.")
    top_p: Share = Field(0.95, description="Nucleus: draw from the likeliest tokens of this total probability; 1: all.")
    max_tokens: Count = Field(4096, description="Maximum length of a response in tokens.")
    greedy: bool = Field(False, description="Also generate one greedy response per prompt (sample_index -1).")
    shards: Count = Field(1, description="Jobs that share the prompts, each with an engine; the samples stay the same.")


class PresamplePlan(PlanConfig):
    """Configuration of `sampling.presample`: samples of the base policy that decide the partition."""

    greedy: Literal[False] = Field(False, description="Always false: only samples are counted.")


class RefinePlan(PlanConfig):
    """Configuration of `sampling.refine`: a new sample, not biased by the selection of the candidates."""

    n: Literal[1] = Field(1, description="Always 1: the new sample of a candidate becomes its stored response.")
    greedy: Literal[False] = Field(False, description="Always false: the stored response is a sample.")


class EvaluatePlan(PlanConfig):
    """Configuration of `sampling.evaluate`: greedy and n samples per prompt in one job."""

    n: Count = Field(16, description="Samples per prompt; pass@k is estimated for every k up to n.")
    n_by_dataset: dict[str, Count] = Field(
        {}, description="Samples per prompt of evaluation sets with another n, for instance {aime24: 64}."
    )
    greedy: bool = Field(True, description="Also generate one greedy response per prompt (sample_index -1).")

    def samples(self, dataset: str) -> int:
        """Samples per prompt of a dataset."""
        return self.n_by_dataset.get(dataset, self.n)


class SamplingConfig(Block):
    """Configuration of the block `sampling`."""

    presample: PresamplePlan = Field(PresamplePlan(), description="Base policy on the training set, once per run.")
    refine: RefinePlan = Field(RefinePlan(), description="Base policy on D_pef's candidates: one new sample each.")
    evaluate: EvaluatePlan = Field(EvaluatePlan(), description="Base and every trained policy on the evaluation sets.")


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
        512,
        description="The same for sampling jobs with vllm on a GPU, in which no trainer shares the memory. vllm has no "
        "CUDA graphs for more than 512.",
    )
    kv_cache_gib: Positive = Field(
        24, description="Memory for the key-value cache in GiB: vllm allocates it at the start, transformers as needed."
    )
    sampling_kv_cache_gib: Positive | None = Field(
        None,
        description="The same for sampling jobs. null: with vllm on a GPU, the rest of 92 % of its memory after "
        "weights and buffers, which must be free at the start; else kv_cache_gib.",
    )

    @property
    def reference_ranks(self) -> int:
        """Processes that compute the stored log-probs: `ranks` if the ranks divide the weights, else 1."""
        return self.ranks if self.zero_stage == 3 else 1

    def for_sampling(self) -> Self:
        """The block with the least key-value cache of sampling jobs."""
        return self.model_copy(update={"kv_cache_gib": self.sampling_kv_cache_gib or self.kv_cache_gib})
