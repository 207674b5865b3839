"""Files that appear whole or not at all, each with its sha256 beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = 1 << 20


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sidecar(path: Path) -> Path:
    """Where the sha256 of `path` stands; its one line is what `sha256sum -c` reads."""
    return path.with_name(path.name + ".sha256")


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
    """Yield an empty folder beside `folder`; on success its files move into `folder`, one atomic rename each."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        for file in sorted(temporary.iterdir()):
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(temporary)


def link_folder(source: Path, folder: Path) -> None:
    """Link every file of `source` into `folder`; large models are not copied.

    Raises:
        ValueError: `source` holds weights as pickles, which are never loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [file for file in sorted(source.iterdir()) if file.is_file() and not file.name.startswith(".")]
    if not any(file.suffix == ".safetensors" for file in files):
        raise ValueError(f"{source}: no *.safetensors in it; convert the model, pickled weights are not loaded")
    for file in files:
        with replacing(folder / file.name) as temporary:
            temporary.symlink_to(file.resolve())


def seal(path: Path) -> None:
    """Write the sha256 sidecar of a finished file."""
    with replacing(sidecar(path)) as temporary:
        temporary.write_text(f"{sha256_file(path)}  {path.name}\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text artifact and its sidecar."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    seal(path)
