"""The block `reference`: stored responses and their log-probabilities."""

from pydantic import Field

from dphrl.config.blocks.base import Block, Whole


class ReferenceConfig(Block):
    """Configuration of the block `reference`."""

    topk_logprobs: Whole = Field(
        0,
        description="Number of most probable tokens per position whose reference log-probabilities are stored in "
        "addition to that of the sampled token, for methods with `topk_estimator`; 0: none.",
    )
