"""Folders that no other user can write to: compiled code that jobs load again, locks of GPUs, temporary files."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

_NAME = "dphrl"
# Caches of compiled code and of pickles, each in a folder with the name of its variable. By default Inductor, CuTe and
# QuACK use $TMPDIR and a name that any user can take first.
_CACHES = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "NUMBA_CACHE_DIR",
    # Other libraries that vLLM loads on GPUs.
    "CUTE_DSL_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "QUACK_CACHE_DIR",
    "TILELANG_CACHE_DIR",
    "TVM_FFI_CACHE_DIR",
)
# Lines of /proc/cpuinfo about the instructions of a processor.
_PROCESSOR = ("model name", "flags", "Features", "CPU implementer", "CPU part")


class UnsafeFolderError(RuntimeError):
    """A folder for private files may hold files of another user, or there is none; the text says what to do."""


def private_folder(name: str) -> Path:
    """A folder of this user with mode 0700, made if needed; all jobs of the user find the same one.

    It is in `$XDG_CACHE_HOME/dphrl`; without that variable in `~/.cache/dphrl`. Where this cannot be written (no home,
    a read-only one) it is in `$TMPDIR/dphrl-<user id>`. A home may be shared by several machines.

    Args:
        name: of the folder, e.g. "locks"; with "/" for a folder in a folder.

    Raises:
        UnsafeFolderError: the folder above belongs to another user, is a link, or others may use it; or no place can
            be written.
    """
    for place in _places():
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
            _check(place)
            folder = place / name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    tried = ", ".join(map(str, _places()))
    raise UnsafeFolderError(
        f"none of {tried} can be written: set XDG_CACHE_HOME to a folder that only you can write to"
    )


def _check(folder: Path) -> None:
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not is_ours or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnsafeFolderError(
            f"{folder}: expected a folder of mode 700 that belongs to user {os.geteuid()}. Jobs load code from it:"
            " remove it, or set XDG_CACHE_HOME to a folder that only you can write to"
        )


def use_private_caches() -> None:
    """Keep the compiled code of torch, vLLM and their libraries in a private folder, for this process and its children.

    Call it before they are imported. One folder for each kind of processor, Python and torch: the code fits no other.

    Raises:
        UnsafeFolderError: see `private_folder`.
    """
    folder = private_folder(f"compiled/{_machine()}")
    os.environ |= {variable: str(folder / variable) for variable in _CACHES}


@contextmanager
def private_temporary_folder() -> Iterator[None]:
    """Let this process and its children make temporary files in a new folder of mode 0700; it is removed at the end.

    Some caches are in the folder of temporary files whatever is set: with the folder they are private.
    """
    # A process that outlives the block may still write there.
    with tempfile.TemporaryDirectory(prefix=f"{_NAME}-", ignore_cleanup_errors=True) as folder:
        before = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            os.environ |= {"TMPDIR": before[1]} if before[1] is not None else {}


def _places() -> Iterator[Path]:
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(cache):
        yield Path(cache, _NAME)
    elif os.path.isdir(home):
        yield Path(home, ".cache", _NAME)
    yield Path(tempfile.gettempdir(), f"{_NAME}-{os.geteuid()}")


@cache
def _machine() -> str:
    """A name for this kind of processor, and the Python and torch that run on it."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        first = file.read().partition("\n\n")[0]
    processor = [line for line in first.splitlines() if line.startswith(_PROCESSOR)]
    digest = hashlib.sha256("\n".join([*processor, sys.version, version("torch")]).encode())
    return f"{platform.machine()}-{digest.hexdigest()[:12]}"
