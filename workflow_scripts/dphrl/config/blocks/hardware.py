"""The block `hardware`: the machine, which changes no result that is asked for; changing it reruns nothing."""

from pydantic import Field

from dphrl.config.blocks.base import Block, Positive


class HardwareConfig(Block):
    """Configuration of the block `hardware`."""

    gpu_gib: Positive | None = Field(
        80,
        description="Memory of a GPU in GiB: a run whose trainings cannot fit is refused before anything runs; null: "
        "no job asks for a GPU.",
    )
