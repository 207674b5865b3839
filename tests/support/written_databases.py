"""SQLite databases in the layout of Spider and BIRD."""

import sqlite3
from contextlib import closing
from pathlib import Path


def write_database(folder: Path, db_id: str, script: str) -> Path:
    """The file `<folder>/<db_id>/<db_id>.sqlite`, made by a script."""
    path = folder / db_id / f"{db_id}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path
