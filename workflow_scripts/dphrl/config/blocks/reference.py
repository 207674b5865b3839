"""The stored reference responses and their log-probabilities."""

from pydantic import Field

from dphrl.config.blocks.base import Block


class ReferenceConfig(Block):
    """Configuration of the block `reference`."""

    token_budget: int = Field(
        32384, ge=1, description="Most tokens per forward pass when the reference log-probabilities are computed."
    )
    top_k: int = Field(
        0,
        ge=0,
        description="Tokens per position, the most probable ones, whose reference log-probabilities are stored beside "
        "that of the sampled token, for methods with `topk`; 0: none.",
    )
