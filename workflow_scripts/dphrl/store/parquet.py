"""Parquet tables with a declared schema and a footer that states where they come from.

A table larger than memory is written a few thousand rows at a time. A reader checks the sha256 of the whole file, not
its rows: the writer checked these.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import replacing, size_and_sha256
from dphrl.store.schema import SchemaError

# Rows of a row group: a reader of a few rows decodes no more than one.
ROW_GROUP: Final = 8192
# Rows in memory at once.
PART: Final = ROW_GROUP
# Rows whose JSON is in memory at once.
_DIGESTED: Final = 1024
_PROMPT: Final = "prompt_id"
_FOOTER = "dphrl"
# The keys that a table adds to the footer of its stage.
ADDED: Final = ("schema", "version", "rows", "digest", "files", "file_sha256")
# Before the sha256 in a footer, of so many characters.
_MARK, _HEX = b'"file_sha256": "', 64
_UNREADABLE = (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def write_table(
    rows: pl.DataFrame | Iterable[pl.DataFrame],
    schema: str,
    path: Path,
    footer: Mapping[str, Any],
    files: Sequence[Path] = (),
) -> None:
    """Check a table against its schema and write it sorted by key, with its footer, atomically.

    Args:
        rows: the table, or its parts in key order; the bytes do not depend on the parts. They are kept in a temporary
            folder until the last one is there, as the digest of all rows is in the footer.
        files: files in the folder of the table that are complete after the last part; the footer lists them.

    Raises:
        SchemaError: a part breaks the schema or does not follow the part before; nothing is written.
    """
    declared, digest = SCHEMAS[schema], hashlib.sha256()
    with replacing(path) as temporary, TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as folder:
        kept: list[Path] = []
        height, last = 0, None
        for part in [rows] if isinstance(rows, pl.DataFrame) else rows:
            conformed = declared.conform(part, str(path))
            last = _last_key(conformed, schema, last, path)
            height += conformed.height
            for chunk in conformed.iter_slices(_DIGESTED):
                digest.update(chunk.write_ndjson().encode())
            kept.append(Path(folder, f"{len(kept)}.parquet"))
            conformed.write_parquet(kept[-1], compression="uncompressed")
        whole = pl.scan_parquet(kept, glob=False) if kept else pl.LazyFrame(schema=declared.columns)
        facts = {"schema": schema, "version": declared.version, "rows": height, "digest": digest.hexdigest(), **footer}
        if files:
            facts["files"] = {file.name: size_and_sha256(file) for file in files}
        # The last value is a placeholder for the sha256 of all other bytes of the file. By it a changed byte is found
        # before the file is decoded: some damage makes a parquet reader ask for so much memory that the process ends,
        # or changes statistics by which it skips rows.
        text = f'{json.dumps(facts, sort_keys=True)[:-1]}, {_MARK.decode()}{"0" * _HEX}"}}'
        whole.sink_parquet(temporary, row_group_size=ROW_GROUP, metadata={_FOOTER: text}, engine="streaming")
        at, _, sha256 = _seal_of(temporary)
        with temporary.open("r+b") as file:
            file.seek(at)
            file.write(sha256.encode())


def _seal_of(path: Path) -> tuple[int, str, str]:
    """Where the sha256 in a table begins, its value, and the value that fits the other bytes.

    Raises:
        KeyError: the file is a table of another program.
        ValueError: there is none.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        # The footer is near the end, after all values of the table.
        at = content.rfind(_MARK) + len(_MARK)
        if at < len(_MARK):
            foreign = _FOOTER not in pl.read_parquet_metadata(path)
            raise KeyError(_FOOTER) if foreign else ValueError("no sha256 in its footer")
        with memoryview(content) as view:
            digest = hashlib.sha256(view[:at])
            digest.update(view[at + _HEX :])
        return at, content[at : at + _HEX].decode(errors="replace"), digest.hexdigest()


def read_footer(path: Path, schema: str | None = None, *, verify: bool = True) -> dict[str, Any]:
    """The footer of a table; with `verify`, after a check of all bytes of the file.

    Raises:
        SchemaError: the file is not a table of this project or not of `schema`, or is damaged.
    """
    try:
        if verify:
            _, written, now = _seal_of(path)
            if written != now:
                raise ValueError(f"{written[:12]} in its footer, {now[:12]} now")
        footer: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)[_FOOTER])
    except KeyError as error:
        raise SchemaError(f"{path}: no artifact of this workflow: its footer has no {error}") from error
    except _UNREADABLE as error:
        raise SchemaError(
            f"{path}: it is not the file that was written ({error}); delete it and run snakemake again"
        ) from error
    holds = footer.get("schema"), footer.get("version")
    if schema and holds != (schema, SCHEMAS[schema].version):
        raise SchemaError(
            f"{path}: holds {holds[0]!r} version {holds[1]}, expected {schema!r} {SCHEMAS[schema].version};"
            " delete it and run snakemake again"
        )
    return footer


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


def table_digest(paths: Sequence[Path], schema: str) -> str:
    """Check the files of a table, and return its digest from their footers.

    Only keys of shards are read: the sha256 of a file says that its rows are those that were written.

    Raises:
        SchemaError: a file is damaged, of another schema or version, or does not follow the file before in key order.
    """
    last, digests = None, []
    for path in paths:
        digests.append(read_footer(path, schema)["digest"])
        if len(paths) > 1:
            keys = pl.scan_parquet(path, glob=False).select(SCHEMAS[schema].key)
            last = _last_key(pl.concat([keys.head(1), keys.tail(1)]).collect(), schema, last, path)
    return shards_digest(digests)


def shards_digest(digests: Sequence[str]) -> str:
    """The digest of a table in one or several files, from the digests of their rows."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def read_table(paths: Path | Sequence[Path], schema: str) -> pl.DataFrame:
    """One table in key order, from one file or from its shards.

    Raises:
        SchemaError: as `table_digest`.
    """
    files = [paths] if isinstance(paths, Path) else list(paths)
    table_digest(files, schema)
    return pl.read_parquet(files, glob=False).rechunk()


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


def _last_key(rows: pl.DataFrame, schema: str, last: tuple[Any, ...] | None, path: Path) -> tuple[Any, ...] | None:
    """The key of the last row of a part; `last` is the key of the row before the part.

    Raises:
        SchemaError: the part begins at or before `last`.
    """
    if rows.is_empty():
        return last
    key = SCHEMAS[schema].key
    first, end = rows.select(key).row(0), rows.select(key).row(-1)
    if last is not None and first <= last:
        raise SchemaError(f"{path}: key {key} repeats or is out of order: {first} comes after {last}")
    return end
