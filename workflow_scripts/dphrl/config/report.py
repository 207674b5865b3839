"""The `report` block: how the page presents itself."""

from pydantic import Field

from dphrl.config.block import Block


class ReportConfig(Block):
    """Words of the report that the results do not determine."""

    title: str = Field("DPH-RL", min_length=1, description="Title of the report page.")
    notes: tuple[str, ...] = Field((), description="What a reader must know to judge the results, shown before them.")
