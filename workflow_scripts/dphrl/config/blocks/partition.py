"""The block `partition`: near-perfect (D_pef) and exploration (D_exp) prompts."""

from typing import Literal

from pydantic import Field, field_validator

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
    given: dict[Literal["pef", "exp"], str] = Field(
        {},
        description="A division made elsewhere, in place of one by pre-samples: two files (.jsonl, .json, .parquet) of "
        "rows of the training set, or of rows {prompt_id} or {source_index}. Questions in neither file are dropped. "
        "Nothing is pre-sampled then, unless train.probe.prompts is above 0.",
        examples=[{"pef": "data/train_correct.jsonl", "exp": "data/train_wrong.jsonl"}],
    )

    @field_validator("given")
    @classmethod
    def _both_files(cls, given: dict[str, str]) -> dict[str, str]:
        if len(given) == 1:
            raise ValueError(f"{given} names one file: name both, pef and exp")
        return given
