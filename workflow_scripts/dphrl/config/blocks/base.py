"""The base class of all blocks."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Dtype = Literal["float32", "bfloat16"]


class Block(BaseModel):
    """A block of the configuration: unknown keys are refused, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def block_in(annotation: Any) -> type[Block] | None:
    """The block in a type, at any depth of mappings and lists; None if there is none."""
    if inner := get_args(annotation):
        return next(filter(None, map(block_in, inner)), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Block) else None
