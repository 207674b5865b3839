"""Parquet tables with a declared schema and a footer that says where they come from."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from dphrl.artifacts.files import replacing, seal, sha256_file, sidecar
from dphrl.artifacts.schemas import SCHEMAS, SchemaError

# Rows of a row group: a reader of a few rows decodes no more than one.
ROW_GROUP: Final = 8192
_FOOTER = "dphrl"


def content_digest(frame: pl.DataFrame, schema: str) -> str:
    """Hex sha256 over the rows in key order, as JSON lines: the same for any sharding, encoding or row group size."""
    rows = SCHEMAS[schema].conform(frame, f"content digest of {schema}")
    buffer = io.BytesIO()
    rows.write_ndjson(buffer)
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def write_table(frame: pl.DataFrame, schema: str, path: Path, footer: Mapping[str, Any]) -> None:
    """Check `frame` against its schema and write it sorted by key, with footer and sha256 sidecar, atomically.

    Raises:
        SchemaError: the frame breaks the schema; nothing is written.
    """
    declared = SCHEMAS[schema]
    rows = declared.conform(frame, str(path))
    full_footer = {"schema": schema, "version": declared.version, "rows": rows.height, **footer}
    with replacing(path) as temporary:
        metadata = {_FOOTER: json.dumps(full_footer, sort_keys=True)}
        rows.write_parquet(temporary, row_group_size=ROW_GROUP, metadata=metadata)
    seal(path)


def read_footer(path: Path) -> dict[str, Any]:
    """The footer of an artifact.

    Raises:
        SchemaError: the file is not a table of this project, or is damaged.
    """
    try:
        metadata = pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SchemaError(
            f"{path}: not a readable parquet file ({error}); delete it and run snakemake again"
        ) from error
    if _FOOTER not in metadata:
        raise SchemaError(f"{path}: no {_FOOTER!r} footer, so it was not written by this workflow")
    footer: dict[str, Any] = json.loads(metadata[_FOOTER])
    return footer


def check_file(path: Path, schema: str) -> None:
    """Check that a file is the one that was written, and of the schema that this code knows.

    A file without a sidecar passes: Snakemake makes again what lacks a declared one.

    Raises:
        SchemaError: the file differs from its sidecar, is of another schema or version, or is no table.
    """
    if sidecar(path).is_file() and sidecar(path).read_text(encoding="utf-8").split()[:1] != [sha256_file(path)]:
        raise SchemaError(f"{path}: differs from {sidecar(path).name}; delete it and run snakemake again")
    footer, version = read_footer(path), SCHEMAS[schema].version
    found = (footer["schema"], footer["version"])
    if found != (schema, version):
        raise SchemaError(f"{path}: holds {found[0]!r} version {found[1]}, expected {schema!r} {version}")


def read_table(paths: Path | Sequence[Path], schema: str) -> pl.DataFrame:
    """One table from one file or from its shards, checked and sorted by key.

    Raises:
        SchemaError: a file differs from its sidecar, is of another schema or version, or shards share a key.
    """
    files = [paths] if isinstance(paths, Path) else list(paths)
    for path in files:
        check_file(path, schema)
    return SCHEMAS[schema].conform(pl.concat(map(pl.read_parquet, files)), ", ".join(map(str, files)))
