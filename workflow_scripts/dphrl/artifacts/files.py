"""Atomic writes of files and folders, each file with its sha256 in a second file next to it."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_SIDECAR = ".sha256"


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sidecar(path: Path) -> Path:
    """The file that holds the sha256 of `path`, as one line that `sha256sum -c` reads."""
    return path.with_name(path.name + _SIDECAR)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success it becomes `path`, on failure it is removed.

    The name is unique to the call, so an orphaned writer of an earlier run can't write into this one's file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder next to `folder`; on success its files move into `folder`, one atomic rename each.

    Then other files of `folder` are removed, e.g. shards of a larger model, which a loader would read too. Files with
    a sidecar stay: they are separate artifacts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as temporary:
        yield Path(temporary)
        names = sorted(os.listdir(temporary))
        for name in names:
            os.replace(Path(temporary, name), folder / name)
        for file in sorted(folder.iterdir()):
            kept = file.name in names or file.name.startswith(".") or file.suffix == _SIDECAR or file.is_dir()
            if not kept and not sidecar(file).exists():
                file.unlink()


def link_folder(source: Path, folder: Path) -> None:
    """Replace the files of `folder` by links to those of `source`; large models are not copied.

    Raises:
        ValueError: `source` holds weights as pickles, which are never loaded.
    """
    # A link with a sidecar would count as a separate artifact, outside the manifest.
    files = [file for file in source.iterdir() if file.is_file() and file.suffix != _SIDECAR]
    files = [file for file in files if not file.name.startswith(".")]
    if not any(file.suffix == ".safetensors" for file in files):
        raise ValueError(f"{source}: no *.safetensors in it; convert the model, pickled weights are not loaded")
    with replacing_folder(folder) as links:
        for file in files:
            (links / file.name).symlink_to(file.resolve())


def seal(path: Path) -> None:
    """Write the sha256 sidecar of a finished file."""
    with replacing(sidecar(path)) as temporary:
        temporary.write_text(f"{sha256_file(path)}  {path.name}\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text artifact and its sidecar."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    seal(path)
