"""Text that is the same for the same values: what Snakemake compares and what a footer holds."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def canonical(value: BaseModel | Mapping[str, Any]) -> str:
    """Sorted compact JSON, with the defaults of models written out: equal values give equal text.

    Raises:
        ValueError: for a number that is not finite. TypeError: for a value that JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no place in a configuration slice")
