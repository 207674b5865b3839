"""Parquet tables with a declared schema and a footer that says where they come from."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.artifacts.files import replacing, seal
from dphrl.artifacts.schemas import SCHEMAS, SchemaError

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
        rows.write_parquet(temporary, metadata={_FOOTER: json.dumps(full_footer, sort_keys=True)})
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


def read_table(paths: Path | Sequence[Path], schema: str) -> pl.DataFrame:
    """One table from one file or from its shards, checked and sorted by key.

    Raises:
        SchemaError: a file is of another schema or version, is damaged, or shards share a key.
    """
    declared = SCHEMAS[schema]
    files = [paths] if isinstance(paths, Path) else list(paths)
    frames = []
    for path in files:
        footer = read_footer(path)
        found = (footer["schema"], footer["version"])
        if found != (schema, declared.version):
            raise SchemaError(f"{path}: holds {found[0]!r} version {found[1]}, expected {schema!r} {declared.version}")
        frames.append(pl.read_parquet(path))
    return declared.conform(pl.concat(frames), ", ".join(map(str, files)))
