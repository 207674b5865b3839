"""The block `partition`: near-perfect (D_pef) and exploration (D_exp) prompts."""

from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block, Count


class PartitionConfig(Block):
    """Configuration of the block `partition` (arXiv 2509.07430, section 4 and appendix F)."""

    pef_min_correct: Count = Field(
        8, description="Minimum number of correct pre-samples of a candidate for D_pef (paper: 8 of 8 for SQL)."
    )
    on_reject: Literal["explore", "discard"] = Field(
        "explore", description="Wrong refinement sample: explore moves the candidate to D_exp, discard drops it."
    )
    drop_all_wrong: bool = Field(False, description="Drop prompts without a correct pre-sample (paper: for maths).")
