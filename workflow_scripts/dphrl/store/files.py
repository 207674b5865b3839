"""Files and folders: the sha256 of a file, times in the future, and atomic writes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PARTS = ".parts"
# Digests by file, in the folder in which Snakemake runs. A copy of the results brings none with it.
_REMEMBERED = Path(".snakemake", "dphrl-sha256")
_FULL = (errno.ENOSPC, errno.EDQUOT)
# The clock of a file server may be ahead by seconds.
_TOLERANCE_S = 60.0


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """Hex sha256 of a large file's bytes, which are read once for all jobs of a run, and again after a change.

    That saves a job 12 s for 8 billion weights (16 GB at 1.4 GB/s), and the 1,241 sampling jobs of `llama-math` four
    hours. A change shows in the size or the ctime, which no program can set.
    """
    # Taken before the file is read: if it changes meanwhile, the next job reads it again.
    status, place = path.stat(), os.fspath(path.absolute())
    state = json.dumps([place, status.st_size, status.st_ctime_ns])
    entry = _REMEMBERED / hashlib.sha256(os.fsencode(place)).hexdigest()
    with suppress(OSError, ValueError):
        remembered, _, digest = entry.read_text(encoding="ascii").rpartition(" ")
        if remembered == state:
            return digest
    digest = sha256_file(path)
    with suppress(OSError), replacing(entry) as temporary:
        temporary.write_text(f"{state} {digest}", encoding="ascii")
    return digest


def visible_files(folder: Path) -> Iterator[Path]:
    """The files in and below a folder, without hidden ones. Links to folders are followed: a cache leaves them."""
    for place, below, names in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        files = (Path(place, name) for name in names if not name.startswith("."))
        yield from filter(Path.is_file, files)


def size_and_sha256(file: Path, sha256: str | None = None) -> dict[str, Any]:
    """The entry of a file in a footer or manifest; `sha256`, if its writer has computed it."""
    return {"size": file.stat().st_size, "sha256": sha256 or sha256_file(file)}


def from_the_future(files: Iterable[str]) -> str | None:
    """The message about the inputs of a run that are newer than the clock; None without any.

    Snakemake ends a run after a job whose output is older than its input.
    """
    latest = time.time() + _TOLERANCE_S
    ahead = sorted({file for file in files if Path(file).is_file() and Path(file).stat().st_mtime > latest})
    if not ahead:
        return None
    more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
    return f"{ahead[0]}{more}: its time is in the future. Set it (touch {ahead[0]}), or set the clock of this machine"


@contextmanager
def _naming_a_full_disk(path: Path) -> Iterator[None]:
    """Raise an OSError that names `path` and the cause if the disk is full; other errors pass."""
    try:
        yield
    except Exception as error:
        # Libraries in Rust give the number in the text of an error of another type.
        if getattr(error, "errno", None) in _FULL or any(f"(os error {number})" in str(error) for number in _FULL):
            message = "the disk or the quota is full; free space and run snakemake again"
            raise OSError(errno.ENOSPC, message, str(path)) from error
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success it becomes `path`, on failure it is removed.

    The name is unique to the call, so an orphaned writer of an earlier run can't write into this one's file.

    Raises:
        OSError: with the name of the file, if the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with _naming_a_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty hidden folder next to `folder`; on success its files replace the files of `folder`.

    Hidden files of `folder` stay: Snakemake keeps one there.

    Raises:
        OSError: with the name of the folder, if the disk is full.
    """
    with _naming_a_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as temporary:
            yield Path(temporary)
            for old in folder.iterdir():
                if old.name.startswith("."):
                    continue
                if old.is_dir() and not old.is_symlink():
                    shutil.rmtree(old)
                else:
                    old.unlink()
            for new in Path(temporary).iterdir():
                new.rename(folder / new.name)


def parts_folder(path: Path) -> Path:
    """The folder of finished parts of a file that is still to be written; they outlive an interrupted job.

    The launcher leaves it, and the audit does not look into it.
    """
    return path.with_name(f".{path.name}{PARTS}")


def remove_parts(path: str | Path) -> None:
    """Remove the parts of a file that was written."""
    shutil.rmtree(parts_folder(Path(path)), ignore_errors=True)


def link_files(files: Iterable[Path], folder: Path) -> None:
    """Replace the files of `folder` by links to these; large models are not copied."""
    with replacing_folder(folder) as links:
        for file in files:
            (links / file.name).symlink_to(file.resolve())


def write_text(path: Path, text: str) -> None:
    """Write a text, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def database_states(folder: str | Path) -> str:
    """A digest of the name, size and time of each database in a folder. No database is read, so it is fast."""
    # A link to nothing is an error of the job that reads it.
    files = [(name, Path(folder) / name) for name in _databases(folder)]
    status = [(name, file.stat(follow_symlinks=file.exists())) for name, file in files]
    states = [(name, state.st_size, state.st_mtime_ns) for name, state in status]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()


def list_databases(folder: str | Path, threads: int) -> list[tuple[str, int, str]]:
    """Rows of the table "databases": name, size in bytes and sha256 of each, read in parallel threads.

    Jobs depend on this table, not on gigabytes of SQLite files.

    Raises:
        OSError: a database cannot be read; the error names it.
    """
    names = _databases(folder)
    files = [Path(folder) / name for name in names]
    with ThreadPoolExecutor(threads) as pool:
        digests = pool.map(sha256_file, files)
        return [(name, file.stat().st_size, sha) for name, file, sha in zip(names, files, digests, strict=True)]


def _databases(folder: str | Path) -> list[str]:
    """`<db_id>/<db_id>.sqlite` of each, in order."""
    return sorted(file.relative_to(folder).as_posix() for file in Path(folder).glob("*/*.sqlite"))
