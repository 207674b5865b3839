"""Tables larger than memory: checked, digested and written a few thousand rows at a time."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl

from dphrl.artifacts.files import replacing, seal
from dphrl.artifacts.schemas import SCHEMAS, SchemaError
from dphrl.artifacts.stage import Stage
from dphrl.artifacts.tables import ROW_GROUP, check_file

# Rows in memory at once.
PART: Final = ROW_GROUP
_PROMPT: Final = "prompt_id"


def scan(job: Stage, name: str, paths: str | Sequence[str], schema: str | None = None) -> pl.LazyFrame:
    """A table (or its shards) as a lazy frame; as `Stage.read`, it is checked and its digest remembered under `name`.

    Raises:
        SchemaError: a file differs from its sidecar, is of another schema or version, or rows are out of key order.
    """
    files = [Path(paths)] if isinstance(paths, str) else [Path(path) for path in paths]
    job.inputs[name] = stream_digest(files, schema or name)
    return pl.scan_parquet(files, glob=False)


def write_parts(job: Stage, parts: Iterable[pl.DataFrame], schema: str, path: str) -> None:
    """Write a table that comes in parts, in key order, with the footer of `job`; as `Stage.write`, it is checked.

    The parts wait in a folder beside the file until the last one is there.

    Raises:
        SchemaError: a part breaks the schema or does not follow the one before; nothing is written.
    """
    declared, file = SCHEMAS[schema], Path(path)
    with replacing(file) as temporary:
        folder = temporary.with_name(f".{temporary.name}.tmp")
        folder.mkdir()
        try:
            files: list[Path] = []
            rows = 0
            for part in _in_key_order((declared.conform(part, path) for part in parts), schema, path):
                rows += part.height
                files.append(folder / f"{len(files)}.parquet")
                part.write_parquet(files[-1], compression="uncompressed")
            whole = pl.scan_parquet(files, glob=False) if files else pl.LazyFrame(schema=declared.columns)
            footer = {"schema": schema, "version": declared.version, "rows": rows, **job.footer()}
            whole.sink_parquet(
                temporary,
                row_group_size=ROW_GROUP,
                metadata={"dphrl": json.dumps(footer, sort_keys=True)},
                engine="streaming",
            )
        finally:
            shutil.rmtree(folder)
    seal(file)


def stream_digest(paths: Sequence[Path], schema: str) -> str:
    """What `content_digest` gives for the table in these files, which are checked on the way.

    Raises:
        SchemaError: as `scan`.
    """
    digest = hashlib.sha256()
    for rows in _in_key_order(_checked(paths, schema), schema, ", ".join(map(str, paths))):
        buffer = io.BytesIO()
        rows.write_ndjson(buffer)
        digest.update(buffer.getbuffer())
    return digest.hexdigest()


def by_prompts(lead: pl.LazyFrame, *others: pl.LazyFrame) -> Iterator[tuple[pl.DataFrame, ...]]:
    """The rows of several tables for some prompts at a time, each prompt once: about `PART` rows of `lead`.

    Args:
        lead: in key order, with a prompt_id, as all tables from `scan` are; that with the most rows per prompt.
        others: in any order; prompts that `lead` lacks come with those nearest to them.
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
    """The parts, each of which is sorted by key.

    Raises:
        SchemaError: a part begins at or before the end of the one before.
    """
    declared, last = SCHEMAS[schema], None
    for rows in parts:
        if rows.height:
            first, end = rows.select(declared.key).row(0), rows.select(declared.key).row(-1)
            if last is not None and first <= last:
                raise SchemaError(f"{where}: key {declared.key} repeats or is out of order: {first} comes after {last}")
            last = end
        yield rows
