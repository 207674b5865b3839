"""The block `report`: texts of the page, and how many samples it shows."""

from pydantic import Field

from dphrl.config.blocks.base import Block


class SamplesConfig(Block):
    """Numbers of samples on the page, which bound its size."""

    prompts: int = Field(
        6,
        ge=0,
        le=100,
        description="Prompts of each evaluation set: some that the base policy solves always, sometimes and never.",
    )
    responses: int = Field(
        3,
        ge=1,
        le=64,
        description="Responses of each policy to a prompt: the greedy one, if it exists, and the first samples.",
    )
    characters: int = Field(
        4000, ge=100, description="Maximum length of a text; longer ones are shown by their beginning and end."
    )


class ReportConfig(Block):
    """Configuration of the block `report`."""

    title: str = Field("DPH-RL", min_length=1, description="Title of the report page.")
    notes: tuple[str, ...] = Field((), description="Caveats that the page shows before the results.")
    samples: SamplesConfig = Field(SamplesConfig(), description="Prompts and responses shown in full.")
