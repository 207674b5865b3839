"""The reader of JSONL, JSON and parquet files, for datasets, recorded answers and files of samples."""

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from dphrl.config.errors import nearest, show

Record = dict[str, Any]
# A record with its file and its number there: the line of JSONL, from 1; the row of JSON and parquet, from 0.
Numbered = tuple[Path, int, Record]

_BOM: Final = b"\xef\xbb\xbf"
_ROWS_AT_ONCE: Final = 16_384
# 1,000 samples of 30 kB. A longer line is a mistake, and a tokenizer would need minutes and gigabytes for it.
_LINE_MIB: Final = 32
_NAMES: Final = 40
_PER_LINE: Final = "one JSON object per line (a list of objects is .json)"
# Keys under which a JSON file has its rows. Settings and summaries next to them may be lists too.
_HOLDERS: Final = ("samples", "results", "details", "eval")
# Lists of parts that each hold rows (reasoning-gym).
_PARTS: Final = ("categories", "datasets")


class SourceError(ValueError):
    """A file of rows cannot be used; the text names the file, the line or row, and the field."""


def parts_of(path: Path) -> list[Path]:
    """The files that a path names: itself, or the parquet files in a folder, shards in the order of their numbers.

    Raises:
        SourceError: a folder without any parquet file.
        FileNotFoundError: no such file or folder.
    """
    if not path.exists():
        near = nearest(path.name, (child.name for child in path.parent.iterdir())) if path.parent.is_dir() else None
        raise FileNotFoundError(f"{path}: does not exist{f'; did you mean {path.with_name(near)}?' if near else ''}")
    if not path.is_dir():
        return [path]
    parts = sorted(path.glob("*.parquet"), key=lambda part: (len(part.name), part.name))
    if not parts:
        others = names_of(dict.fromkeys(sorted(child.name for child in path.iterdir())))
        hint = f"; name what to read in it: {others}" if others else ""
        raise SourceError(f"{path}: of a folder the .parquet files in it are read, and it has none{hint}")
    return parts


def read_records(path: Path) -> Iterator[Numbered]:
    """Each object of a file, or of the parquet files in a folder.

    - `.jsonl`: one object per line of at most 32 MiB; blank lines are skipped.
    - `.json`: a list of objects, or an object that holds one (`_rows_of`).
    - `.parquet`: one object per row, nested columns as dicts and lists.
    - a folder: its parquet files, one after the other.

    A lone surrogate of a JSON text stays in the record: only the caller knows whether its field is used. Decimal
    columns of parquet become numbers, or text where a number would lose digits.

    Raises:
        SourceError: another suffix, content that does not fit the suffix, or a field twice in one JSON object.
        OSError: the file cannot be read.
    """
    readers = {".jsonl": _lines, ".json": _list, ".parquet": _table}
    for part in parts_of(path):
        if part.suffix not in readers:
            suffixes = ".jsonl, .json or .parquet"
            given = part.suffix or "no suffix"
            raise SourceError(f"{part}: expected a file in {suffixes}, found {given}: unpack or convert it")
        for number, record in readers[part.suffix](part):
            yield part, number, record


def read_source(path: str | Path) -> list[Record]:
    """All rows of a dataset or of recorded answers. Raises as `read_records`; no rows are a `SourceError` too."""
    rows = [record for *_, record in read_records(Path(path))]
    if not rows:
        raise SourceError(f"{path}: found no rows")
    return rows


def is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogate: half of a character, which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
        most = _LINE_MIB * 2**20
        for number, line in enumerate(iter(partial(stream.readline, most + 1), b""), start=1):
            if len(line) > most:
                advice = "write one sample per line, or a parquet file"
                raise SourceError(f"{place(path, number)}: longer than {_LINE_MIB} MiB: {advice}")
            if line.isspace():
                continue
            try:
                value = _parsed(line.removeprefix(_BOM))
            except ValueError as error:
                raise SourceError(f"{place(path, number)}: expected {_PER_LINE}, in UTF-8: {error}") from None
            if not isinstance(value, dict):
                raise SourceError(f"{place(path, number)}: expected {_PER_LINE}, found {type(value).__name__}")
            yield number, value


def _parsed(text: bytes) -> Any:
    """The JSON value of a text; ValueError without one, for too deep a nesting, and for a field twice in an object."""
    try:
        return _DECODER.decode(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the field {show(repeated)} is twice in one object")
    return record


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once)


def _list(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        value = _parsed(path.read_bytes().removeprefix(_BOM))
    except ValueError as error:
        expected = "a list of objects (one object per line is .jsonl)"
        raise SourceError(f"{path}: expected {expected} in UTF-8: {error}") from None
    rows = value if isinstance(value, list) else _rows_of(value)
    if rows is None:
        content = type(value).__name__
        if isinstance(value, dict):
            keys = ", ".join(show(key, 60) for key in list(value)[:3])
            content = f"one object with the keys {keys}, ...: write its rows alone, jq '.KEY' FILE > ROWS.json"
        raise SourceError(f"{path}: expected a list of objects, found {content}")
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise SourceError(f"{place(path, index)}: expected a JSON object, found {type(row).__name__}")
        yield index, row


def _rows_of(value: Any, held: bool = False) -> list[Any] | None:
    """The rows in a JSON value; None without any.

    The rows of an object are, in this order: its columns and data (a table of wandb), the rows of all its `_PARTS`, the
    rows under one of `_HOLDERS`, its only list of objects, columns of cells by row number (pandas), or objects by id,
    which becomes their field `id`.

    Args:
        held: the value is under one of `_HOLDERS`. Only there lists of rows by id are read. Elsewhere they may be parts
            of a dataset, such as train and test.
    """
    if isinstance(value, list):
        return value if value and _objects(value) else None
    if not isinstance(value, dict):
        return None
    columns, data = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        names = [str(name) for name in columns]
        return [dict(zip(names, row, strict=False)) for row in data]
    for name in _PARTS:
        parts = [_rows_of(part) for part in value[name]] if isinstance(value.get(name), list) else []
        if parts and None not in parts:
            return [row for rows in parts for row in rows or ()]
    held_rows = (_rows_of(value[name], held=True) for name in _HOLDERS if name in value)
    lists = [rows for rows in value.values() if isinstance(rows, list) and rows and _objects(rows)]
    if (first := next(filter(None, held_rows), None)) is not None:
        return first
    if held and len(lists) == len(value) > 0:
        return [{"id": key} | row for key, rows in value.items() for row in rows]
    if len(lists) == 1:
        return lists[0]
    if len(value) < 2 or not _objects([*value.values()]):
        return None
    cells = next(iter(value.values()))
    if cells and all(key.isdecimal() for key in cells):
        return [{name: column.get(key) for name, column in value.items()} for key in cells]
    return [{"id": key} | row for key, row in value.items()]


def _table(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        table = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{path}: expected a parquet table: {error}") from None
    has_decimals = "Decimal" in str(table.schema)
    start = 0
    for part in table.iter_slices(_ROWS_AT_ONCE):
        rows = part.iter_rows(named=True)
        yield from enumerate(map(_without_decimals, rows) if has_decimals else rows, start)
        start += len(part)


def _without_decimals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_decimals(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_decimals(inner) for inner in value]
    if not isinstance(value, Decimal):
        return value
    number = int(value) if value == value.to_integral_value() else float(value)
    return number if Decimal(str(number)) == value else str(value)


def _objects(values: list[Any]) -> bool:
    return all(isinstance(row, dict) for row in values)
