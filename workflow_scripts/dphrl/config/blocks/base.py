"""The base class of all blocks."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
Dtype = Literal["float32", "bfloat16"]


class Block(BaseModel):
    """A block of the configuration: unknown keys are refused, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bool_for_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads yes, no, on and off as booleans, which pydantic would accept as 1 and 0."""
        if isinstance(value, bool) and info.field_name:
            annotation = cls.model_fields[info.field_name].annotation
            if {annotation, *get_args(annotation)} & {int, float}:
                raise PydanticCustomError("number_expected", "a number, not true or false")
        return value
