"""Atomic writes of files and folders."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PARTS = ".parts"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listed(file: Path, sha256: str | None = None) -> dict[str, Any]:
    """Size and sha256 of a file, as footers and manifests list it; a sha256 that is given is not computed again."""
    return {"size": file.stat().st_size, "sha256": sha256 or sha256_file(file)}


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
    """Yield an empty hidden folder next to `folder`; on success its files replace those of `folder`.

    Hidden files of `folder` stay: Snakemake has one there.

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
