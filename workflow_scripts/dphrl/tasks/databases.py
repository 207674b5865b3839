"""Where a database lies."""

import os
from pathlib import Path, PurePosixPath


def database_path(folder: str | Path, db_id: str) -> Path:
    """The file of a database: `<folder>/<db_id>/<db_id>.sqlite`, the layout of the Spider and BIRD releases.

    A `db_id` that ends in `.sqlite` is itself the path inside the folder, as the rows of DPH-RL (arXiv 2509.07430) have
    it: `name/name.sqlite`.

    Raises:
        ValueError: `db_id` leaves the folder or is no file name.
        FileNotFoundError: there is no such file.
    """
    relative = PurePosixPath(db_id if db_id.endswith(".sqlite") else f"{db_id}/{db_id}.sqlite")
    if not db_id or "\0" in db_id or relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"db_id {db_id!r}: expected a name inside {folder}")
    path = Path(folder) / relative
    # Unlike Path.is_file this is False, not an error, for a name that is too long for the file system.
    if not os.path.isfile(path):
        raise FileNotFoundError(f"database {db_id!r}: {path} is missing")
    return path
