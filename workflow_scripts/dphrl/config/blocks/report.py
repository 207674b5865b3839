"""The block `report`: texts of the page, and how many samples it shows."""

from pydantic import Field

from dphrl.config.blocks.base import Block, Text


class SamplesConfig(Block):
    """Numbers of samples on the page, which bound its size."""

    prompts: int = Field(
        6, ge=0, le=100, description="Prompts per evaluation set: some that the base solves always, sometimes, never."
    )
    responses: int = Field(
        3, ge=1, le=64, description="Responses per policy and prompt: the greedy one, if any, and the first samples."
    )
    characters: int = Field(4000, ge=100, description="Maximum length of a text; longer ones show beginning and end.")


class ReportConfig(Block):
    """Configuration of the block `report`."""

    title: Text | None = Field(
        None, description="Title of the report page; null: the name of the run, and what the page answers."
    )
    notes: tuple[str, ...] = Field((), description="Caveats that the page shows before the results.")
    samples: SamplesConfig = Field(SamplesConfig(), description="Prompts and responses shown in full.")
