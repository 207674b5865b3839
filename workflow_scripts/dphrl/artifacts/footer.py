"""The types of what a footer or a manifest holds; a file of a run may have been damaged, or written by other code."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError


class Footer(BaseModel):
    """Types of the values of a footer; each may be missing, and there may be others."""

    model_config = ConfigDict(strict=True)

    schema_name: str = Field("", alias="schema")
    version: int = 0
    rows: int = 0
    stage: str = ""
    config: dict[str, Any] = {}
    hardware: dict[str, Any] = {}
    code: str = ""
    inputs: dict[str, str] = {}
    libraries: dict[str, str] = {}
    seed: int | None = None


def _inside(name: str) -> str:
    """A path relative to the folder of a manifest, which stays in that folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise ValueError("is not the name of a file in the folder")
    return name


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)

    size: int
    sha256: str


class Manifest(Footer):
    """Types of the values of a manifest: the files of its folder, and a footer."""

    files: dict[Annotated[str, AfterValidator(_inside)], _Entry]


def parsed(text: str, types: type[BaseModel]) -> dict[str, Any]:
    """The JSON object in `text`.

    Raises:
        ValueError: it is no JSON, or a value has another type; the message names its key.
    """
    try:
        return typed(json.loads(text), types)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def typed(value: Any, types: type[BaseModel]) -> dict[str, Any]:
    """The object itself, if it has these types.

    Raises:
        ValueError: a value has another type; the message names its key.
    """
    try:
        types.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}") from None
    found: dict[str, Any] = value
    return found
