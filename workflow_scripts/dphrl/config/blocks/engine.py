"""The block `engine`, for every stage that draws responses from a policy."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Count, Dtype, Positive


class EngineConfig(Block):
    """Configuration of the block `engine`."""

    name: Literal["vllm", "transformers"] = Field(
        "vllm",
        description="vllm, or transformers for machines without it; with one seed they draw different responses.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the engine's weights; must equal train.dtype.")
    max_model_len: int = Field(20480, ge=2, description="Maximum length of a sequence (prompt and response) in tokens.")
    max_num_seqs: Count = Field(256, description="Maximum number of sequences decoded at the same time.")
    kv_cache_gib: Positive = Field(
        24, description="Memory for the key-value cache in GiB: vllm allocates it at the start, transformers as needed."
    )
    tensor_parallel: Count = Field(
        1, description="GPUs that share one vllm engine; in training these are ranks, so it divides train.ranks."
    )

    @model_validator(mode="after")
    def _tensor_parallel_needs_vllm(self) -> Self:
        if self.tensor_parallel > 1 and self.name != "vllm":
            raise PydanticCustomError(
                "tensor_parallel_needs_vllm", "tensor_parallel 1: only vllm can spread an engine over several GPUs"
            )
        return self
