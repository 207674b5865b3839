"""The sha256 of large files, which jobs on one machine compute once as long as a file stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from dphrl.artifacts.files import replacing, sha256_file
from dphrl.artifacts.private import UnsafeFolderError, make_private

# In the folder in which Snakemake runs. It is no part of the results, so a copy of them brings no digests with it.
_FOLDER = Path(".snakemake")
_NAME = "dphrl-sha256"


def remembered_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes, read again only if its size, time of modification or inode is another one.

    A digest is remembered for one machine and file, in `.snakemake` of the current folder. Without that folder, or if
    other users may write to it, every call reads the file. What changed under the same three is not noticed; the audit
    notices it, as it always reads.
    """
    folder = _folder()
    if folder is None:
        return sha256_file(path)
    # Before the file is read: of a file that changes meanwhile the digest is not found again.
    status, place = path.stat(), os.fspath(path.absolute())
    state = json.dumps([place, status.st_size, status.st_mtime_ns, status.st_ino])
    entry = folder / hashlib.sha256(os.fsencode(place)).hexdigest()
    with suppress(OSError, ValueError):
        known, _, digest = entry.read_text(encoding="ascii").rpartition(" ")
        if known == state:
            return digest
    digest = sha256_file(path)
    with suppress(OSError), replacing(entry) as temporary:
        temporary.write_text(f"{state} {digest}", encoding="ascii")
    return digest


def _folder() -> Path | None:
    """The private folder of this machine's digests; None where there can be none."""
    folder = _FOLDER / _NAME
    try:
        if not _FOLDER.is_dir():
            return None
        for place in (folder, folder / os.uname().nodename):
            make_private(place)
    except (OSError, UnsafeFolderError):
        return None
    return folder / os.uname().nodename
