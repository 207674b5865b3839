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

from dphrl.artifacts.files import replacing, seal, sha256_file, sidecar
from dphrl.artifacts.schemas import SCHEMAS, SchemaError
from dphrl.artifacts.stage import Stage
from dphrl.artifacts.tables import read_footer

# Rows in memory at once. Also the row group size: a reader of a few rows decodes no more than one.
PART: Final = 8192
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
            for part in _in_key_order(parts, schema, path):
                rows += part.height
                files.append(folder / f"{len(files)}.parquet")
                part.write_parquet(files[-1], compression="uncompressed")
            whole = pl.scan_parquet(files, glob=False) if files else pl.LazyFrame(schema=declared.columns)
            footer = {"schema": schema, "version": declared.version, "rows": rows, **job.footer()}
            whole.sink_parquet(
                temporary,
                row_group_size=PART,
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
    for rows in _in_key_order(_slices(paths, schema), schema, ", ".join(map(str, paths))):
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


def _slices(paths: Sequence[Path], schema: str) -> Iterator[pl.DataFrame]:
    for path in paths:
        if sidecar(path).read_text(encoding="utf-8").split()[:1] != [sha256_file(path)]:
            raise SchemaError(f"{path}: differs from {sidecar(path).name}; delete it and run snakemake again")
        footer = read_footer(path)
        found, declared = (footer["schema"], footer["version"]), SCHEMAS[schema].version
        if found != (schema, declared):
            raise SchemaError(f"{path}: holds {found[0]!r} version {found[1]}, expected {schema!r} {declared}")
        frame = pl.scan_parquet(path, glob=False)
        rows = frame.select(pl.len()).collect().item()
        for start in range(0, max(rows, 1), PART):
            yield frame.slice(start, PART).collect()


def _in_key_order(parts: Iterable[pl.DataFrame], schema: str, where: str) -> Iterator[pl.DataFrame]:
    """The parts, each checked and sorted.

    Raises:
        SchemaError: a part breaks the schema, or begins at or before the end of the one before.
    """
    declared, last = SCHEMAS[schema], None
    for part in parts:
        rows = declared.conform(part, where)
        if rows.height:
            first, end = rows.select(declared.key).row(0), rows.select(declared.key).row(-1)
            if last is not None and first <= last:
                raise SchemaError(f"{where}: key {declared.key} repeats or is out of order: {first} comes after {last}")
            last = end
        yield rows
