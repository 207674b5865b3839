"""Manifests: the declared output of a stage that writes a folder of files.

Snakemake times and deletes folders badly, and does not see a changed file inside one; a manifest holds the size and
sha256 of each file of its folder and is written last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dphrl.artifacts.files import separate, sha256_file, sidecar, write_text
from dphrl.artifacts.footer import Manifest, parsed

_CARD = "README.md"


class ManifestError(ValueError):
    """The files of a folder differ from its manifest; the text names the file."""


def write_manifest(path: Path, footer: Mapping[str, Any], digests: Mapping[str, str] | None = None) -> None:
    """Write the manifest of the files in and below the folder of `path`.

    Hidden and temporary files and sidecars are not listed, nor tables with a sidecar, which are separate artifacts, nor
    the model card, which is written after the evaluation of the model.

    Args:
        digests: the sha256 of files that were hashed while they were written, by name; the others are read.
    """
    known, entries = digests or {}, {name: path.parent / name for name in _files(path)}
    files = {
        name: {"size": file.stat().st_size, "sha256": known.get(name) or sha256_file(file)}
        for name, file in entries.items()
    }
    write_text(path, json.dumps({"files": files, **footer}, indent=1, sort_keys=True) + "\n")


def read_manifest(path: Path, *, verify: bool = True, digest: Callable[[Path], str] = sha256_file) -> dict[str, Any]:
    """The manifest; with `verify`, after a check that the files are there, unchanged, and no others.

    Args:
        digest: the sha256 of a file, such as `remembered_sha256`.

    Raises:
        ManifestError: a file is missing, differs or is not listed; or this is no manifest.
    """
    try:
        manifest = parsed(path.read_text(encoding="utf-8"), Manifest)
    except ValueError as error:
        raise ManifestError(f"{path}: no manifest ({error}); delete it and run snakemake again") from error
    missing, changed, unlisted = differences(path, manifest, digest) if verify else ([], [], [])
    for names, problem in (
        (missing, f"listed in {path.name} but missing; delete {path} and run snakemake again"),
        (changed, f"differs from {path.name}; delete {path} and run snakemake again"),
        # A loader takes every *.safetensors of a folder, listed or not.
        (unlisted, f"not listed in {path.name}; move it elsewhere"),
    ):
        if names:
            raise ManifestError(f"{path.parent / names[0]}: {problem}")
    return manifest


def differences(
    path: Path, manifest: Mapping[str, Any], digest: Callable[[Path], str] = sha256_file
) -> tuple[list[str], list[str], list[str]]:
    """How the folder of `path` differs from its manifest: the names of missing, changed and unlisted files."""
    listed, folder = manifest["files"], path.parent
    missing = [name for name in listed if not (folder / name).is_file()]
    changed = [
        name
        for name, entry in listed.items()
        if name not in missing
        and ((folder / name).stat().st_size != entry["size"] or digest(folder / name) != entry["sha256"])
    ]
    return missing, changed, [name for name in _files(path) if name not in listed]


def remove_folders(manifests: Iterable[str]) -> None:
    """Remove the files of manifests, where these are still there; other files in their folders stay.

    A manifest goes last: a removal that is interrupted can be repeated.

    Raises:
        ManifestError: a file is no manifest.
    """
    for path in filter(Path.exists, map(Path, manifests)):
        names = [*read_manifest(path, verify=False)["files"], sidecar(path).name, path.name]
        for name in names:
            (path.parent / name).unlink(missing_ok=True)
        for folder in sorted({(path.parent / name).parent for name in names}, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Hex digest of the folder's content: names and hashes, not footers."""
    listing = json.dumps({name: entry["sha256"] for name, entry in manifest["files"].items()}, sort_keys=True)
    return hashlib.sha256(listing.encode()).hexdigest()


def _files(manifest: Path) -> list[str]:
    """The files that belong in a manifest, relative to its folder."""
    folder = manifest.parent
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file()
        and file not in (manifest, manifest.with_name(_CARD))
        and not file.name.startswith(".")
        and not file.name.endswith((".tmp", ".sha256"))
        and not separate(file)
    )
