"""The block `engine`, for every stage that draws responses from a policy."""

from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Dtype, Text, Whole

EngineName = Literal["vllm", "transformers"]
Plan = Literal["presample", "refine", "evaluate"]
# What draws responses: the plans of the block `sampling`, and training.
DrawingStage = Literal[Plan, "rollouts"]


class EngineConfig(Block):
    """Configuration of the block `engine`."""

    name: EngineName = Field(
        "vllm",
        description="vllm, or transformers for machines without it; with one seed they draw different responses.",
    )
    stages: dict[DrawingStage, EngineName] = Field(
        {},
        description="The engine of single stages where it is another one, for instance {evaluate: transformers}: "
        "presample, refine and evaluate are the plans of sampling, rollouts those of training. All policies that are "
        "compared have the same. transformers starts sooner, and is faster for small models and short responses.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the engine's weights; must equal train.dtype.")
    max_model_len: int = Field(20480, ge=2, description="Maximum length of a sequence (prompt and response) in tokens.")
    stop: tuple[Text, ...] = Field((), description="Texts that end a response; they are not part of its text.")
    stop_token_ids: tuple[Whole, ...] | None = Field(
        None,
        description="Tokens that end a response, in addition to the tokenizer's EOS and those of generation_config. "
        "null: the end-of-turn token of the chat template.",
    )
    batch_invariant: bool = Field(
        False,
        description="In sampling on a GPU: a response does not depend on which others are drawn at the same time; "
        "slower. Needs vllm. On a CPU it never does. Not in training, where it would slow down the trainer too.",
    )

    @model_validator(mode="after")
    def _batch_invariant_needs_vllm(self) -> Self:
        if self.batch_invariant and {self.name_of(plan) for plan in get_args(Plan)} != {"vllm"}:
            raise PydanticCustomError("batch_invariant_needs_vllm", "batch_invariant false: only vllm has it")
        return self

    def name_of(self, stage: DrawingStage) -> EngineName:
        """The engine of a stage."""
        return self.stages.get(stage, self.name)

    def of(self, stage: DrawingStage) -> dict[str, Any]:
        """The keys that decide what a stage draws, with the engine of that stage as `name`."""
        exact = self.batch_invariant and stage != "rollouts"
        return {
            **self.model_dump(mode="json", exclude={"stages"}),
            "name": self.name_of(stage),
            "batch_invariant": exact,
        }
