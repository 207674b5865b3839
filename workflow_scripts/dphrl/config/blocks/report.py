"""The `report` block: how the page presents itself."""

from pydantic import Field

from dphrl.config.blocks.base import Block


class SamplesConfig(Block):
    """Prompts and responses that the page shows in full; these numbers bound its size."""

    prompts: int = Field(
        6,
        ge=0,
        le=100,
        description="Prompts of each evaluation set: those the base solves always, sometimes, never.",
    )
    responses: int = Field(
        3,
        ge=1,
        le=64,
        description="Responses of each policy to a prompt: the greedy one, if drawn, and the first samples.",
    )
    characters: int = Field(
        4000,
        ge=100,
        description="Length up to which a text is shown whole; of a longer one, beginning and end.",
    )


class ReportConfig(Block):
    """Words of the report that the results do not determine, and how many samples it shows."""

    title: str = Field("DPH-RL", min_length=1, description="Title of the report page.")
    notes: tuple[str, ...] = Field((), description="What a reader must know to judge the results, shown before them.")
    samples: SamplesConfig = Field(SamplesConfig(), description="Prompts and responses that the page shows.")
