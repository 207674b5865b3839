"""The datasets: what is asked, and where the rows come from."""

from typing import Literal

from pydantic import Field

from dphrl.config.block import Block

Task = Literal["sql", "math"]


class DatasetConfig(Block):
    """Configuration of one entry of the block `datasets`."""

    task: Task = Field(
        description="What the rows ask for: a query that is run, or an answer that is compared.", examples=["sql"]
    )
    source: str = Field(
        min_length=1,
        description="Path of a JSONL file; or toy: the questions of that name of the block `toy`.",
        examples=["data/bird_train.jsonl"],
    )
