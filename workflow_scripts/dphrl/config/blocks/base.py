"""The base class of all blocks."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

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
