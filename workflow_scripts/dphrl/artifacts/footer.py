"""The types of the values in a footer or a manifest. A file of a run may be damaged, or written by other code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

_SEAL: Final = "footer_sha256"
# The keys that a table adds to the footer of its stage.
ADDED: Final = ("schema", "version", "rows", "digest", "files", "file_sha256")


def _inside(name: str) -> str:
    """A path relative to a folder, which stays in that folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise ValueError("is not the name of a file in the folder")
    return name


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)

    size: int
    sha256: str


_Files = dict[Annotated[str, AfterValidator(_inside)], _Entry]


class Input(BaseModel):
    """One input of a stage: its files, relative to the run folder, and the digest of their content.

    Of a file from outside of the run only the base name is kept, so that two users' footers are equal.
    """

    model_config = ConfigDict(strict=True)

    paths: Annotated[list[str], Field(min_length=1)]
    digest: str


class Footer(BaseModel):
    """Types of the values of a footer; each may be missing, and there may be others."""

    model_config = ConfigDict(strict=True)

    schema_name: str = Field("", alias="schema")
    version: int = 0
    rows: int = 0
    digest: str = ""
    files: _Files = {}
    path: str = ""
    stage: str = ""
    made_by: str = ""
    config: dict[str, Any] = {}
    hardware: dict[str, Any] = {}
    code: str = ""
    inputs: dict[str, Input] = {}
    libraries: dict[str, str] = {}
    seed: int | None = None


class Manifest(Footer):
    """Types of the values of a manifest: the files of its folder, and a footer."""

    files: _Files


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as JSON gives it back, with the sha256 of its other values, by which a changed byte is noticed."""
    plain = json.loads(json.dumps(facts))
    return {**plain, _SEAL: _digest(plain)}


def unsealed(text: str) -> dict[str, Any]:
    """The manifest in `text`, as `sealed` gave it.

    Raises:
        ValueError: as `parsed`; or a value is not as it was written.
    """
    manifest = parsed(text, Manifest)
    try:
        digest = _digest(manifest)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if manifest.get(_SEAL) != digest:
        raise ValueError(f"{_SEAL}: its values are not those that were written")
    return manifest


def _digest(facts: Mapping[str, Any]) -> str:
    """Hex sha256 of a footer as canonical JSON, without the key for this digest."""
    rest = {name: value for name, value in facts.items() if name != _SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


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
    """Check the types of a JSON object, and return it.

    Raises:
        ValueError: a value has another type; the message names its key.
    """
    try:
        types.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}") from None
    checked: dict[str, Any] = value
    return checked
