"""The SQLite databases of a dataset as one table: jobs depend on it, not on gigabytes of files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file


def database_states(folder: str | Path) -> str:
    """A digest of name, size and time of change of every database in a folder, which is fast: no database is read."""
    # A link to nothing is an error of the job that reads it.
    files = [(name, Path(folder) / name) for name in _names(folder)]
    status = [(name, file.stat(follow_symlinks=file.exists())) for name, file in files]
    states = [(name, one.st_size, one.st_mtime_ns) for name, one in status]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()


def list_databases(folder: str | Path, threads: int) -> pl.DataFrame:
    """The table "databases": size in bytes and sha256 of each, read in parallel threads.

    Raises:
        OSError: a database cannot be read; the error names it.
    """
    names = _names(folder)
    files = [Path(folder) / name for name in names]
    with ThreadPoolExecutor(threads) as pool:
        digests: Iterable[str] = pool.map(sha256_file, files)
        rows = [(name, file.stat().st_size, sha) for name, file, sha in zip(names, files, digests, strict=True)]
    return SCHEMAS["databases"].frame(rows)


def _names(folder: str | Path) -> list[str]:
    """`<db_id>/<db_id>.sqlite` of each, in order."""
    return sorted(file.relative_to(folder).as_posix() for file in Path(folder).glob("*/*.sqlite"))
