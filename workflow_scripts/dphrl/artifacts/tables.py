"""Parquet tables with a declared schema and a footer that states where they come from.

A table larger than memory is checked, digested and written a few thousand rows at a time.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import listed, replacing
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
# Before the sha256 in a footer, of so many characters.
_MARK, _HEX = b'"file_sha256": "', 64
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


class Digest(Protocol):
    """The type of a hash of `hashlib`."""

    def update(self, data: memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


def content_digest(frame: pl.DataFrame, schema: str) -> str:
    """Hex sha256 over the rows in key order, as JSON lines: the same for any sharding, encoding or row group size."""
    return _digest(SCHEMAS[schema].conform(frame, f"content digest of {schema}"))


def write_table(frame: pl.DataFrame, schema: str, path: Path, footer: Mapping[str, Any]) -> None:
    """Check `frame` against its schema and write it sorted by key, with its footer, atomically.

    Raises:
        SchemaError: the frame breaks the schema; nothing is written.
    """
    rows = SCHEMAS[schema].conform(frame, str(path))
    with replacing(path) as temporary:
        metadata = _metadata(schema, rows.height, _digest(rows), footer)
        rows.write_parquet(temporary, row_group_size=ROW_GROUP, metadata=metadata)
        seal(temporary)


def write_parts(
    parts: Iterable[pl.DataFrame], schema: str, path: Path, footer: Mapping[str, Any], files: Sequence[Path] = ()
) -> None:
    """As `write_table`, for a table that comes in parts, in key order; the bytes do not depend on the parts.

    The parts are kept in a temporary folder until the last one is there.

    Args:
        files: files in the folder of the table that are complete after the last part; the footer lists them.

    Raises:
        SchemaError: a part breaks the schema or does not follow the part before; nothing is written.
    """
    declared, digest = SCHEMAS[schema], hashlib.sha256()
    with replacing(path) as temporary, TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as folder:
        kept: list[Path] = []
        rows = 0
        for part in _in_key_order((declared.conform(part, str(path)) for part in parts), schema, str(path)):
            rows += part.height
            for lines in _json_lines(part):
                digest.update(lines)
            kept.append(Path(folder, f"{len(kept)}.parquet"))
            part.write_parquet(kept[-1], compression="uncompressed")
        whole = pl.scan_parquet(kept, glob=False) if kept else pl.LazyFrame(schema=declared.columns)
        more = {"files": {file.name: listed(file) for file in files}} if files else {}
        metadata = _metadata(schema, rows, digest.hexdigest(), {**footer, **more})
        whole.sink_parquet(temporary, row_group_size=ROW_GROUP, metadata=metadata, engine="streaming")
        seal(temporary)


def _metadata(schema: str, rows: int, digest: str, footer: Mapping[str, Any]) -> dict[str, str]:
    facts = {"schema": schema, "version": SCHEMAS[schema].version, "rows": rows, "digest": digest, **footer}
    return {_FOOTER: footer_text(facts)}


def footer_text(facts: Mapping[str, Any]) -> str:
    """A footer as JSON whose last value is a placeholder of 64 zeros: `seal` writes the sha256 of the file there."""
    return f'{json.dumps(facts, sort_keys=True)[:-1]}, {_MARK.decode()}{"0" * _HEX}"}}'


def seal(path: Path) -> None:
    """Replace the placeholder in the footer of a table by the sha256 of all other bytes of the file.

    So a changed byte is found before the file is decoded: some damage makes a parquet reader ask for so much memory
    that the process ends, or changes statistics by which it skips rows.
    """
    at, _, digest = _seal_of(path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(digest.encode())


def _seal_of(path: Path) -> tuple[int, str, str]:
    """Where the sha256 in a table begins, its value, and the value that fits the other bytes.

    Raises:
        ValueError: there is none.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        # The footer is near the end, after all values of the table.
        at = content.rfind(_MARK) + len(_MARK)
        if at < len(_MARK):
            raise ValueError("no sha256 in its footer, so it is cut off or was not written by this workflow")
        with memoryview(content) as view:
            digest = hashlib.sha256(view[:at])
            digest.update(view[at + _HEX :])
        return at, content[at : at + _HEX].decode(errors="replace"), digest.hexdigest()


def read_footer(path: Path, *, verify: bool = True) -> dict[str, Any]:
    """The footer of a table; with `verify`, after a check of all bytes of the file.

    Raises:
        SchemaError: the file is not a table of this project, or is damaged.
    """
    if verify:
        try:
            _, written, now = _seal_of(path)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        if written != now:
            raise SchemaError(
                f"{path}: it is not the file that was written ({written[:12]} in its footer, {now[:12]} now);"
                " delete it and run snakemake again"
            )
    try:
        metadata = pl.read_parquet_metadata(path)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if _FOOTER not in metadata:
        raise SchemaError(f"{path}: no {_FOOTER!r} footer, so it was not written by this workflow")
    try:
        return parsed(metadata[_FOOTER], Footer)
    except ValueError as error:
        raise SchemaError(f"{path}: a damaged footer ({error}); delete it and run snakemake again") from error


def check_listed(path: Path, sha256: str, table: Path) -> None:
    """Check that the footer of a table lists a file of its folder with this sha256.

    Raises:
        SchemaError: it lists another sha256, or not this file.
    """
    written = read_footer(table).get("files", {}).get(path.name, {}).get("sha256", "")
    if written != sha256:
        raise SchemaError(
            f"{path}: it is not the file that was written ({written[:12]} in the footer of {table.name},"
            f" {sha256[:12]} now); delete it and run snakemake again"
        )


def read_table(paths: Path | Sequence[Path], schema: str) -> pl.DataFrame:
    """One table from one file or from its shards, checked and sorted by key.

    Raises:
        SchemaError: as `stream_digest` of each file; or shards share a key.
    """
    files = [paths] if isinstance(paths, Path) else list(paths)
    rows = [part for path in files for part in _of_all([path], schema, hashlib.sha256())]
    return SCHEMAS[schema].conform(pl.concat(rows), ", ".join(map(str, files)))


def stream_digest(paths: Sequence[Path], schema: str) -> str:
    """The `content_digest` of the table in these files, a part at a time; the files are checked as they are read.

    Raises:
        SchemaError: a file is no table, of another schema or version, or its rows break the schema, are out of key
            order, or differ from the rows that were written.
    """
    whole = hashlib.sha256()
    for _ in _of_all(paths, schema, whole):
        pass
    return whole.hexdigest()


def read_and_digest(paths: Sequence[Path], schema: str) -> tuple[pl.DataFrame, str]:
    """The table in these files, in key order, and its `content_digest`; each row is decoded once.

    Raises:
        SchemaError: as `stream_digest`.
    """
    whole = hashlib.sha256()
    rows = pl.concat(_of_all(paths, schema, whole), rechunk=True)
    return rows, whole.hexdigest()


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


def _of_all(paths: Sequence[Path], schema: str, whole: Digest) -> Iterator[pl.DataFrame]:
    """The rows of the table in these files in parts, each checked; `whole` gets the bytes of the content digest."""
    single = len(paths) == 1
    parts = (
        part for path in paths for part in _checked(path, schema, (whole,) if single else (hashlib.sha256(), whole))
    )
    return _in_key_order(parts, schema, ", ".join(map(str, paths)))


def _checked(path: Path, schema: str, digests: Sequence[Digest]) -> Iterator[pl.DataFrame]:
    """The rows of a file in parts, each checked; after the last one the first digest is compared with the footer's.

    Raises:
        SchemaError: as `stream_digest`.
    """
    footer, declared = read_footer(path), SCHEMAS[schema]
    kind = (footer.get("schema"), footer.get("version"))
    if kind != (schema, declared.version):
        raise SchemaError(f"{path}: holds {kind[0]!r} version {kind[1]}, expected {schema!r} {declared.version}")
    for part in _readable(path):
        rows = declared.conform(part, str(path))
        if not rows.select(declared.key).equals(part.select(declared.key)):
            raise SchemaError(f"{path}: not sorted by {', '.join(declared.key)}")
        for lines in _json_lines(rows):
            for digest in digests:
                digest.update(lines)
        yield rows
    written, now = footer.get("digest", ""), digests[0].hexdigest()
    if written != now:
        raise SchemaError(
            f"{path}: its rows are not those that were written ({written[:12]} in its footer, {now[:12]} now);"
            " delete it and run snakemake again"
        )


def _readable(path: Path) -> Iterator[pl.DataFrame]:
    """The rows of a file in parts.

    Raises:
        SchemaError: they cannot be decoded.
    """
    try:
        yield from slices(pl.scan_parquet(path, glob=False))
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> SchemaError:
    return SchemaError(f"{path}: not a readable parquet file ({error}); delete it and run snakemake again")


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


def _digest(rows: pl.DataFrame) -> str:
    digest = hashlib.sha256()
    for lines in _json_lines(rows):
        digest.update(lines)
    return digest.hexdigest()


def _json_lines(rows: pl.DataFrame) -> Iterator[memoryview]:
    """The rows as the bytes that their digest is made of."""
    for some in rows.iter_slices(_DIGESTED):
        buffer = io.BytesIO()
        some.write_ndjson(buffer)
        yield buffer.getbuffer()
