"""Manifests: the declared output that stands for a folder of files.

Snakemake times and deletes folders badly, and a changed file inside one goes unseen; a manifest holds the size and
sha256 of each file beside it and is written last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dphrl.artifacts.files import sha256_file, sidecar, write_text


class ManifestError(ValueError):
    """A folder is not what its manifest says; the text names the file."""


def write_manifest(path: Path, footer: Mapping[str, Any]) -> None:
    """Write the manifest of the files in and below the folder of `path`.

    A file with a sha256 sidecar is an artifact of its own and not listed, nor is a hidden or temporary file.
    """
    entries = {name: path.parent / name for name in _files(path)}
    files = {name: {"size": file.stat().st_size, "sha256": sha256_file(file)} for name, file in entries.items()}
    write_text(path, json.dumps({"files": files, **footer}, indent=1, sort_keys=True) + "\n")


def read_manifest(path: Path, *, verify: bool = True) -> dict[str, Any]:
    """The manifest; with `verify`, after a check that the files are there, unchanged, and no others.

    Raises:
        ManifestError: a file is missing, differs or is not listed.
    """
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name, entry in manifest["files"].items() if verify else ():
        file = path.parent / name
        if not file.is_file():
            raise ManifestError(f"{file}: listed in {path.name} but missing; delete {path} and run snakemake again")
        if file.stat().st_size != entry["size"] or sha256_file(file) != entry["sha256"]:
            raise ManifestError(f"{file}: differs from {path.name}; delete {path} and run snakemake again")
    # A loader takes every *.safetensors of a folder, listed or not.
    extra = [name for name in _files(path) if name not in manifest["files"]] if verify else []
    if extra:
        raise ManifestError(f"{path.parent / extra[0]}: not listed in {path.name}; move it elsewhere")
    return manifest


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Hex digest of the folder's content: names and hashes, not footers."""
    listing = json.dumps({name: entry["sha256"] for name, entry in manifest["files"].items()}, sort_keys=True)
    return hashlib.sha256(listing.encode()).hexdigest()


def _files(manifest: Path) -> list[str]:
    """The files that a manifest stands for, relative to its folder."""
    folder = manifest.parent
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file()
        and file != manifest
        and not file.name.startswith(".")
        and not file.name.endswith((".tmp", ".sha256"))
        and not sidecar(file).exists()
    )
