"""Dataset files as rows."""

import json
from pathlib import Path
from typing import Any

import polars as pl


class SourceError(ValueError):
    """A dataset file cannot be used; the text names the file and the line or row."""


def read_source(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a dataset file, whose fields `prepare` checks.

    The suffix is the format: `.jsonl` has one object per line (blank lines are skipped), `.json` a list of objects,
    `.parquet` one object per row, nested columns as dicts and lists.

    Raises SourceError for another suffix, a file or row that is not of that format, or no rows.
    """
    path = Path(path)
    readers = {".jsonl": _lines, ".json": _list, ".parquet": _table}
    if path.suffix not in readers:
        raise SourceError(f"{path}: expected a file in .jsonl, .json or .parquet, found {path.suffix or 'no suffix'}")
    rows = readers[path.suffix](path)
    if not rows:
        raise SourceError(f"{path}: found no rows")
    return rows


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        lines = ((f"{path}, line {number}", line) for number, line in enumerate(stream, start=1) if line.strip())
        return [_object(_json(line, where, "one JSON object"), where) for where, line in lines]


def _list(path: Path) -> list[dict[str, Any]]:
    value = _json(path.read_bytes(), str(path), "a list of objects (one object per line is .jsonl)")
    if not isinstance(value, list):
        found = type(value).__name__
        if isinstance(value, dict):
            keys = ", ".join(repr(key) for key in list(value)[:3])
            found = f"one object with the keys {keys}, ...: if its values are the rows, write them as a list"
        raise SourceError(f"{path}: expected a list of objects, found {found}")
    return [_object(row, f"{path}, row {index}") for index, row in enumerate(value)]


def _table(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        return pl.read_parquet(path, glob=False).to_dicts()
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{path}: expected a parquet table: {error}") from None


def _json(data: bytes, where: str, expected: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where}: expected {expected} in UTF-8: {error}") from None


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value
