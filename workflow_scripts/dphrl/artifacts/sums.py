"""SHA256SUMS: the sha256 of every file of a run, as `sha256sum -c SHA256SUMS` reads it in the folder of the run."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from dphrl.artifacts.files import PARTS, replacing, sha256_file
from dphrl.artifacts.manifest import folder_of

SUMS: Final = "SHA256SUMS"
# What jobs and trackers write for people, and the seconds of jobs: a job that is repeated changes its own alone.
_LEFT_OUT = ("logs", "tracking", "timings")
_LINE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
# As coreutils 9 writes names that would break a line.
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_UNESCAPED = {escaped: plain for plain, escaped in _ESCAPES.items()}


def write_sums(root: Path, superseded: Collection[str] = (), known: Mapping[Path, str] | None = None) -> None:
    """Write SHA256SUMS of a run: a line for each file, sorted by path; hidden and temporary files are left out.

    Args:
        root: the folder of the run.
        superseded: manifests that will be removed with their folders; none of these files is listed.
        known: the sha256 of files that were hashed a moment ago; the others are read.
    """
    removed = {path for manifest in map(Path, superseded) for path in (manifest, folder_of(manifest))}
    files = {
        os.fsencode(file.relative_to(root).as_posix()): file
        for file in root.rglob("*")
        if _is_listed(file.relative_to(root)) and file.is_file() and removed.isdisjoint({file, *file.parents})
    }
    hashed = known or {}
    with replacing(root / SUMS) as temporary, temporary.open("wb") as lines:
        lines.writelines(_line(name, hashed.get(file) or sha256_file(file)) for name, file in sorted(files.items()))


def read_sums(root: Path) -> dict[str, str]:
    """The sha256 of each file that SHA256SUMS of a run lists, by its path in the run.

    Raises:
        ValueError: a line is none of `sha256sum`.
    """
    found = {}
    content = (root / SUMS).read_bytes()
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise ValueError(f"line {number} is no sha256 with a path")
        escaped, digest, name = parts.groups()
        if escaped:
            name = re.sub(rb"\\[\\nr]", lambda sign: _UNESCAPED[sign[0]], name)
        found[os.fsdecode(name)] = digest.decode()
    if not content.endswith(b"\n"):
        raise ValueError("its last line is cut off")
    return found


def is_temporary(name: str) -> bool:
    """Whether a name is one that a writer uses until its file or folder is whole."""
    return name.startswith(".") and name.endswith((".tmp", PARTS))


def _is_listed(path: Path) -> bool:
    """Whether a file of a run is listed, by its path in the run."""
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and path.parts[0] not in _LEFT_OUT and path.as_posix() != SUMS


def _line(name: bytes, digest: str) -> bytes:
    escaped = re.sub(rb"[\\\n\r]", lambda sign: _ESCAPES[sign[0]], name)
    return (b"\\" if escaped != name else b"") + digest.encode() + b"  " + escaped + b"\n"
