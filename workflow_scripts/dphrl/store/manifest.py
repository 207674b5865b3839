"""Lists of files with their sha256: the manifest of a folder, and SHA256SUMS of a run.

A manifest is next to its folder: `step4.json` lists the files in `step4/`. Snakemake does not see a changed file inside
a folder; a manifest holds the size and sha256 of each file and is written last. SHA256SUMS lists every file that the
rules of a run make, for `sha256sum -c SHA256SUMS`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dphrl.store.files import (
    remembered_sha256,
    replacing,
    replacing_folder,
    sha256_file,
    size_and_sha256,
    visible_files,
    write_text,
)

SUMS: Final = "SHA256SUMS"
_SEAL: Final = "footer_sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class ManifestError(ValueError):
    """The files of a folder differ from its manifest; the text names the file."""


def folder_of(manifest: Path) -> Path:
    """The folder whose files a manifest lists."""
    return manifest.with_suffix("")


def write_manifest(path: Path, footer: Mapping[str, Any], digests: Mapping[str, str] | None = None) -> None:
    """Write the manifest of all files in and below its folder, hidden files apart.

    Args:
        digests: the sha256 of files that were hashed while they were written, by name; the others are read.
    """
    hashed = digests or {}
    files = {name: size_and_sha256(folder_of(path) / name, hashed.get(name)) for name in _files(path)}
    write_text(path, json.dumps(_sealed({"files": files, **footer}), indent=1, sort_keys=True) + "\n")


def _sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as read from JSON, with the sha256 of its other values, which shows a changed byte."""
    plain: dict[str, Any] = json.loads(json.dumps({name: value for name, value in facts.items() if name != _SEAL}))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return {**plain, _SEAL: hashlib.sha256(text.encode()).hexdigest()}


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest; the files of its folder are not checked.

    Raises:
        ManifestError: this is no manifest, or a value of it has changed.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or manifest.get(_SEAL) != _sealed(manifest)[_SEAL]:
            raise ValueError("its values are not those that were written")
    except ValueError as error:
        raise ManifestError(f"{path}: no manifest ({error}); delete it and run snakemake again") from error
    return manifest


def verified_manifest(path: Path, below: str = "") -> dict[str, Any]:
    """A manifest, after a check that its folder has exactly the listed files, unchanged (`remembered_sha256`).

    Args:
        below: only files of this folder within the folder are checked, such as "databases/"; "": all.

    Raises:
        ManifestError: as `read_manifest`; or a file is missing, differs or is not listed.
    """
    manifest, folder = read_manifest(path), folder_of(path)
    listed, present = (
        {name for name in names if name.startswith(below)} for names in (manifest["files"], _files(path))
    )
    for name in sorted(listed | present):
        file, entry = folder / name, manifest["files"].get(name)
        if name not in listed:  # a loader takes every *.safetensors of a folder
            raise ManifestError(f"{file}: not listed in {path.name}; move it elsewhere")
        if name not in present:
            raise ManifestError(f"{file}: listed in {path.name} but missing; delete {path} and run snakemake again")
        if file.stat().st_size != entry["size"] or remembered_sha256(file) != entry["sha256"]:
            raise ManifestError(f"{file}: differs from {path.name}; delete {path} and run snakemake again")
    return manifest


def remove_folders(manifests: Iterable[str]) -> None:
    """Remove manifests and their folders, where these are still there.

    A manifest goes first: without it no job starts from its folder. A removal that is interrupted can be repeated.
    """
    for manifest in map(Path, manifests):
        manifest.unlink(missing_ok=True)
        if folder_of(manifest).is_dir():
            shutil.rmtree(folder_of(manifest))


def repeat_folder(folder: Path, again: Path) -> dict[str, str]:
    """Give a folder the files of another one with a manifest, without copies. Returns the sha256 of each by name.

    Hard links: the other folder may be removed.
    """
    files = read_manifest(folder.with_suffix(".json"))["files"]
    with replacing_folder(again) as links:
        for name in files:
            try:
                os.link(folder / name, links / name)
            except OSError:  # a file system without hard links
                shutil.copyfile(folder / name, links / name)
    return {name: entry["sha256"] for name, entry in files.items()}


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Hex digest of the folder's content: names and hashes, not footers."""
    return names_digest({name: entry["sha256"] for name, entry in manifest["files"].items()})


def names_digest(digests: Mapping[str, str]) -> str:
    """Hex digest of the names of files and of the sha256 of each."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _files(manifest: Path) -> list[str]:
    """The files that belong in a manifest, relative to its folder."""
    folder = folder_of(manifest)
    return sorted(file.relative_to(folder).as_posix() for file in visible_files(folder))


def write_sums(root: Path, files: Iterable[Path], hashes: Mapping[Path, str]) -> None:
    """Write SHA256SUMS of a run: a line for each file, sorted by path.

    Args:
        hashes: the sha256 of files that were hashed a moment ago; the others are read.
    """
    named = {file.relative_to(root).as_posix(): file for file in files}
    lines = [f"{hashes.get(file) or sha256_file(file)}  {name}\n" for name, file in sorted(named.items())]
    with replacing(root / SUMS) as temporary:
        temporary.write_bytes(os.fsencode("".join(lines)))


def read_sums(root: Path) -> dict[str, str]:
    """The sha256 of each file that SHA256SUMS of a run lists, by its path in the run.

    Raises:
        ValueError: a line is none of `sha256sum`.
    """
    sums = {}
    *lines, rest = os.fsdecode((root / SUMS).read_bytes()).split("\n")
    if rest or not lines:
        raise ValueError("its last line is cut off")
    for number, line in enumerate(lines, 1):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise ValueError(f"line {number} is no sha256 with a path")
        sums[parts[2]] = parts[1]
    return sums
