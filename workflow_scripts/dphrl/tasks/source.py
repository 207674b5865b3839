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

    Raises:
        SourceError: another suffix, a file or a row that is not of that format, or no rows.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    match path.suffix:
        case ".jsonl":
            rows = _lines(path)
        case ".json":
            rows = _list(path)
        case ".parquet":
            rows = _table(path)
        case suffix:
            raise SourceError(f"{path}: expected a file in .jsonl, .json or .parquet, found {suffix or 'no suffix'}")
    if not rows:
        raise SourceError(f"{path}: found no rows")
    return rows


def _lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                where = f"{path}, line {number}"
                rows.append(_object(_json(line, where, "one JSON object"), where))
    return rows


def _list(path: Path) -> list[dict[str, Any]]:
    value = _json(path.read_bytes(), str(path), "a list of objects (one object per line is .jsonl)")
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:3])
        raise SourceError(
            f"{path}: expected a list of objects, found one object with the keys {keys}, ...: "
            "if its values are the rows, write them as a list"
        )
    if not isinstance(value, list):
        raise SourceError(f"{path}: expected a list of objects, found {type(value).__name__}")
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
