"""Parquet tables with a declared schema and a footer that states where they come from.

A table larger than memory is checked, digested and written a few thousand rows at a time.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import replacing, seal, sha256_file, sidecar
from dphrl.artifacts.footer import Footer, parsed
from dphrl.artifacts.schema import SchemaError

# Rows of a row group: a reader of a few rows decodes no more than one.
ROW_GROUP: Final = 8192
# Rows in memory at once.
PART: Final = ROW_GROUP
# Rows whose JSON is in memory at once.
_DIGESTED: Final = 1024
_PROMPT: Final = "prompt_id"
_FOOTER = "dphrl"


def content_digest(frame: pl.DataFrame, schema: str) -> str:
    """Hex sha256 over the rows in key order, as JSON lines: the same for any sharding, encoding or row group size."""
    return _digest([SCHEMAS[schema].conform(frame, f"content digest of {schema}")])


def write_table(frame: pl.DataFrame, schema: str, path: Path, footer: Mapping[str, Any]) -> None:
    """Check `frame` against its schema and write it sorted by key, with footer and sha256 sidecar, atomically.

    Raises:
        SchemaError: the frame breaks the schema; nothing is written.
    """
    rows = SCHEMAS[schema].conform(frame, str(path))
    with replacing(path) as temporary:
        rows.write_parquet(temporary, row_group_size=ROW_GROUP, metadata=_metadata(schema, rows.height, footer))
    seal(path)


def write_parts(parts: Iterable[pl.DataFrame], schema: str, path: Path, footer: Mapping[str, Any]) -> None:
    """As `write_table`, for a table that comes in parts, in key order; the bytes do not depend on the parts.

    The parts are kept in a temporary folder until the last one is there.

    Raises:
        SchemaError: a part breaks the schema or does not follow the part before; nothing is written.
    """
    declared = SCHEMAS[schema]
    with replacing(path) as temporary, TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as folder:
        files: list[Path] = []
        rows = 0
        for part in _in_key_order((declared.conform(part, str(path)) for part in parts), schema, str(path)):
            rows += part.height
            files.append(Path(folder, f"{len(files)}.parquet"))
            part.write_parquet(files[-1], compression="uncompressed")
        whole = pl.scan_parquet(files, glob=False) if files else pl.LazyFrame(schema=declared.columns)
        metadata = _metadata(schema, rows, footer)
        whole.sink_parquet(temporary, row_group_size=ROW_GROUP, metadata=metadata, engine="streaming")
    seal(path)


def _metadata(schema: str, rows: int, footer: Mapping[str, Any]) -> dict[str, str]:
    facts = {"schema": schema, "version": SCHEMAS[schema].version, "rows": rows, **footer}
    return {_FOOTER: json.dumps(facts, sort_keys=True)}


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
    try:
        return parsed(metadata[_FOOTER], Footer)
    except ValueError as error:
        raise SchemaError(f"{path}: a damaged footer ({error}); delete it and run snakemake again") from error


def check_file(path: Path, schema: str) -> None:
    """Check that a file is unchanged since it was written, and of the schema that this code knows.

    A file without a sidecar passes: Snakemake reruns a job that lacks a declared output.

    Raises:
        SchemaError: the file differs from its sidecar, is of another schema or version, or not a table.
    """
    if sidecar(path).is_file() and sidecar(path).read_text(encoding="utf-8").split()[:1] != [sha256_file(path)]:
        raise SchemaError(f"{path}: differs from {sidecar(path).name}; delete it and run snakemake again")
    footer, version = read_footer(path), SCHEMAS[schema].version
    found = (footer.get("schema"), footer.get("version"))
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


def stream_digest(paths: Sequence[Path], schema: str) -> str:
    """The `content_digest` of the table in these files, a part at a time; the files are checked as they are read.

    Raises:
        SchemaError: as `Stage.scan`.
    """
    return _digest(_in_key_order(_checked(paths, schema), schema, ", ".join(map(str, paths))))


def by_prompts(lead: pl.LazyFrame, *others: pl.LazyFrame) -> Iterator[tuple[pl.DataFrame, ...]]:
    """The rows of several tables for some prompts at a time, each prompt once: about `PART` rows of `lead`.

    Args:
        lead: the table with the most rows per prompt; in key order by prompt_id, as all tables from `Stage.scan`.
        others: in any order; prompts that `lead` lacks come with the prompts nearest to them.
    """
    starts = lead.select(_PROMPT).gather_every(PART).collect(engine="streaming")[_PROMPT].unique().sort().to_list()
    prompt = pl.col(_PROMPT)
    for start, end in pairwise([None, *starts[1:], None]):
        inside = pl.lit(True) if start is None else prompt >= start
        inside = inside if end is None else inside & (prompt < end)
        yield tuple(frame.filter(inside).collect(engine="streaming") for frame in (lead, *others))


def slices(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """All rows in their order, `PART` at a time; at least one frame, which may be empty."""
    rows = frame.select(pl.len()).collect().item()
    for start in range(0, max(rows, 1), PART):
        yield frame.slice(start, PART).collect()


def _checked(paths: Sequence[Path], schema: str) -> Iterator[pl.DataFrame]:
    """The rows of these files in parts, each checked.

    Raises:
        SchemaError: as `check_file`; or rows break the schema, or are not sorted by key.
    """
    declared = SCHEMAS[schema]
    for path in paths:
        check_file(path, schema)
        for part in slices(pl.scan_parquet(path, glob=False)):
            rows = declared.conform(part, str(path))
            if not rows.select(declared.key).equals(part.select(declared.key)):
                raise SchemaError(f"{path}: not sorted by {', '.join(declared.key)}")
            yield rows


def _in_key_order(parts: Iterable[pl.DataFrame], schema: str, where: str) -> Iterator[pl.DataFrame]:
    """The parts, each sorted by key, after a check that their keys increase from part to part.

    Raises:
        SchemaError: a part begins at or before the end of the part before.
    """
    declared, last = SCHEMAS[schema], None
    for rows in parts:
        if rows.height:
            first, end = rows.select(declared.key).row(0), rows.select(declared.key).row(-1)
            if last is not None and first <= last:
                raise SchemaError(f"{where}: key {declared.key} repeats or is out of order: {first} comes after {last}")
            last = end
        yield rows


def _digest(parts: Iterable[pl.DataFrame]) -> str:
    digest = hashlib.sha256()
    for rows in parts:
        for some in rows.iter_slices(_DIGESTED):
            buffer = io.BytesIO()
            some.write_ndjson(buffer)
            digest.update(buffer.getbuffer())
    return digest.hexdigest()
