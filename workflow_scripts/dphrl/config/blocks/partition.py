"""The division of the training set into near-perfect (D_pef) and exploration (D_exp) prompts."""

from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block


class PartitionConfig(Block):
    """Configuration of the block `partition` (arXiv 2509.07430, section 4 and appendix F)."""

    pef_min_correct: int = Field(
        8,
        ge=1,
        description="Correct pre-samples from which on a prompt is a candidate for D_pef (paper: 8 of 8 for SQL).",
    )
    on_reject: Literal["explore", "discard"] = Field(
        "explore", description="Where a candidate goes whose further sample is wrong: to D_exp, or out."
    )
    drop_all_wrong: bool = Field(
        False, description="Leave out prompts without one correct pre-sample (the paper does so for maths)."
    )
