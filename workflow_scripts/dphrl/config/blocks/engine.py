"""The sampling engine, for every stage that draws from a policy."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Dtype


class EngineConfig(Block):
    """Configuration of the block `engine`; all keys but the last have an effect on both engines."""

    name: Literal["vllm", "transformers"] = Field(
        "vllm",
        description="Which engine draws: vllm, or transformers, for machines without vLLM. From one seed they draw "
        "different responses.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the engine's weights; the same as train.dtype.")
    max_model_len: int = Field(
        20480, ge=2, description="Longest sequence (prompt and response) in tokens that the engine makes room for."
    )
    max_num_seqs: int = Field(256, ge=1, description="Most sequences that are decoded at the same time.")
    kv_cache_gib: float = Field(
        24,
        gt=0,
        description="Memory for the engine's key-value cache, in GiB: vllm takes it at the start, transformers as it "
        "needs it.",
    )
    tensor_parallel: int = Field(
        1,
        ge=1,
        description="GPUs that one vllm engine is spread over: in a training as many of its ranks, so it divides "
        "train.ranks.",
    )

    @model_validator(mode="after")
    def _tensor_parallel_needs_vllm(self) -> Self:
        if self.tensor_parallel > 1 and self.name != "vllm":
            raise PydanticCustomError(
                "tensor_parallel_needs_vllm", "tensor_parallel 1: only vllm can spread an engine over several GPUs"
            )
        return self
