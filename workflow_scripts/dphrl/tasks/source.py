"""Dataset files as rows."""

import json
from pathlib import Path
from typing import Any


class SourceError(ValueError):
    """A dataset file cannot be read; the text names the file and the line."""


def read_source(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file, one object per line; blank lines are skipped.

    A row has `prompt` (text) or `messages` (list of {"role", "content"}) and the task's ground truth: `db_id` and
    `gold_sql` for SQL, `answer` for mathematics. What a row holds is judged by `prepare`.

    Raises:
        SourceError: a line is not UTF-8, not JSON or not an object, or there are no rows.
        FileNotFoundError: there is no such file.
    """
    rows: list[dict[str, Any]] = []
    with Path(path).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
                raise SourceError(f"{path}, line {number}: expected one JSON object in UTF-8: {error}") from None
            if not isinstance(row, dict):
                raise SourceError(f"{path}, line {number}: expected a JSON object, found {type(row).__name__}")
            rows.append(row)
    if not rows:
        raise SourceError(f"{path}: expected one JSON object per line, found no rows")
    return rows
