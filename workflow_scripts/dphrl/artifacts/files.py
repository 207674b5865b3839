"""Files that appear whole or not at all, each with its sha256 beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = 1 << 20
_SIDECAR = ".sha256"


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sidecar(path: Path) -> Path:
    """Where the sha256 of `path` stands; its one line is what `sha256sum -c` reads."""
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
    """Yield an empty folder beside `folder`; on success its files move into `folder`, one atomic rename each.

    Then other files of `folder` are removed, e.g. shards of a larger model, which a loader would take for part of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        names = sorted(file.name for file in temporary.iterdir())
        for name in names:
            os.replace(temporary / name, folder / name)
        _remove_others(folder, names)
    finally:
        shutil.rmtree(temporary)


def link_folder(source: Path, folder: Path) -> None:
    """Link every file of `source` into `folder`, in place of what was there; large models are not copied.

    Raises:
        ValueError: `source` holds weights as pickles, which are never loaded.
    """
    files = [
        file
        for file in sorted(source.iterdir())
        # A file with a sidecar would be taken for an artifact of its own, outside the manifest.
        if file.is_file() and not file.name.startswith(".") and file.suffix != _SIDECAR
    ]
    if not any(file.suffix == ".safetensors" for file in files):
        raise ValueError(f"{source}: no *.safetensors in it; convert the model, pickled weights are not loaded")
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        with replacing(folder / file.name) as temporary:
            temporary.symlink_to(file.resolve())
    _remove_others(folder, [file.name for file in files])


def _remove_others(folder: Path, names: Collection[str]) -> None:
    """Remove the files of a folder but for `names` and artifacts of their own, which have a sidecar."""
    for file in sorted(folder.iterdir()):
        if file.is_dir() or file.name in names or file.name.startswith(".") or file.suffix == _SIDECAR:
            continue
        if not sidecar(file).exists():
            file.unlink()


def seal(path: Path) -> None:
    """Write the sha256 sidecar of a finished file."""
    with replacing(sidecar(path)) as temporary:
        temporary.write_text(f"{sha256_file(path)}  {path.name}\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text artifact and its sidecar."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    seal(path)
