"""The reader of JSONL, JSON and parquet files, for datasets, recorded answers and files of samples."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl
from pydantic_core import from_json

from dphrl.config.errors import show

Record = dict[str, Any]

_BOM: Final = b"\xef\xbb\xbf"
_ROWS_AT_ONCE: Final = 16_384
_NAMES: Final = 40


class SourceError(ValueError):
    """A file of rows cannot be used; the text names the file, the line or row, and the field."""


def parts_of(path: Path) -> list[Path]:
    """The files that a path names: itself, or the parquet files in a folder, shards in the order of their numbers.

    Raises:
        SourceError: a folder without any parquet file.
    """
    if not path.is_dir():
        return [path]
    parts = sorted(path.glob("*.parquet"), key=lambda part: (len(part.name), part.name))
    if not parts:
        folders = names_of(dict.fromkeys(sorted(child.name for child in path.iterdir() if child.is_dir())))
        hint = f"; name one of its folders: {folders}" if folders else ""
        raise SourceError(f"{path}: of a folder the .parquet files in it are read, and it has none{hint}")
    return parts


def read_records(path: Path) -> Iterator[tuple[Path, int, Record]]:
    """Each object with its file and its number there: the line of JSONL, from 1; the row of JSON and parquet, from 0.

    - `.jsonl`: one object per line; blank lines are skipped.
    - `.json`: a list of objects, or an object with a single such list (or with `samples`).
    - `.parquet`: one object per row, nested columns as dicts and lists.
    - a folder: its parquet files, one after the other.

    Pydantic parses JSON: its parser limits the depth of nesting and is several times as fast as the standard library.

    Raises:
        SourceError: another suffix, or content that does not fit the suffix.
        OSError: the file cannot be read.
    """
    readers = {".jsonl": _lines, ".json": _list, ".parquet": _table}
    for part in parts_of(path):
        if part.suffix not in readers:
            suffixes = ".jsonl, .json or .parquet"
            raise SourceError(f"{part}: expected a file in {suffixes}, found {part.suffix or 'no suffix'}")
        for number, record in readers[part.suffix](part):
            yield part, number, record


def read_source(path: str | Path) -> list[Record]:
    """All rows of a dataset or of recorded answers. Raises as `read_records`; no rows are a `SourceError` too."""
    rows = [record for *_, record in read_records(Path(path))]
    if not rows:
        raise SourceError(f"{path}: found no rows")
    return rows


def place(path: Path, number: int) -> str:
    """Where a record is, for a message."""
    return f"{path}, {'line' if path.suffix == '.jsonl' else 'row'} {number}"


def names_of(record: Record) -> str:
    """The names of a record's fields, for a message: not more than a reader can take in."""
    names = [show(name, 60)[1:-1] for name in islice(record, _NAMES)]
    return ", ".join([*names, "..."] if len(record) > _NAMES else names)


def leaves(record: Record) -> Record:
    """The fields of a record as `--map` can name them, with dots into objects and `*` for all of a list; and values."""
    return dict(_leaves("", record))


def _leaves(start: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{start}.{name}" if start else str(name), inner)
        return
    yield start, value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _leaves(f"{start}.*", value[0])


def _lines(path: Path) -> Iterator[tuple[int, Record]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.isspace():
                continue
            try:
                value = from_json(line.removeprefix(_BOM))
            except ValueError as error:
                raise SourceError(f"{place(path, number)}: expected one JSON object in UTF-8: {error}") from None
            yield number, _object(path, number, value)


def _list(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        value = from_json(path.read_bytes().removeprefix(_BOM))
    except ValueError as error:
        expected = "a list of objects (one object per line is .jsonl)"
        raise SourceError(f"{path}: expected {expected} in UTF-8: {error}") from None
    if isinstance(value, dict):
        lists = {name: rows for name, rows in value.items() if isinstance(rows, list) and rows and _objects(rows)}
        value = lists.get("samples") or (next(iter(lists.values())) if len(lists) == 1 else value)
    if not isinstance(value, list):
        content = type(value).__name__
        if isinstance(value, dict):
            keys = ", ".join(repr(key) for key in list(value)[:3])
            rows = "jq -c 'to_entries[] | {id: .key} + .value' FILE > ROWS.jsonl"
            content = f"one object with the keys {keys}, ...: if its values are the rows, write them as a list, {rows}"
        raise SourceError(f"{path}: expected a list of objects, found {content}")
    for index, row in enumerate(value):
        yield index, _object(path, index, row)


def _table(path: Path) -> Iterator[tuple[int, Record]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        table = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{path}: expected a parquet table: {error}") from None
    start = 0
    for part in table.iter_slices(_ROWS_AT_ONCE):
        yield from enumerate(part.iter_rows(named=True), start)
        start += len(part)


def _objects(values: list[Any]) -> bool:
    return all(isinstance(row, dict) for row in values)


def _object(path: Path, number: int, value: Any) -> Record:
    if not isinstance(value, dict):
        raise SourceError(f"{place(path, number)}: expected a JSON object, found {type(value).__name__}")
    return value
