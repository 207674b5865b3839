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
from importlib.metadata import version
from pathlib import Path

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


def private_folder(name: str) -> Path:
    """A folder of this user with mode 0700, made if needed; all jobs of the user find the same one.

    It is in `$XDG_CACHE_HOME/dphrl`; without that variable in `~/.cache/dphrl`. A home may be shared by machines.

    Args:
        name: of the folder, e.g. "locks"; with "/" for a folder in a folder.

    Raises:
        PermissionError: the folder above belongs to another user, is a link, cannot be written, or others may use it.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    place = Path(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "dphrl")
    # Without a home the path keeps its ~.
    if not (place.is_absolute() and _is_private(place)):
        raise PermissionError(
            f"{place}: expected a folder of mode 700 that belongs to user {os.geteuid()} and can be written. Jobs load"
            " code from it: remove it, or set XDG_CACHE_HOME to a folder that only you can write to"
        )
    folder = place / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _is_private(folder: Path) -> bool:
    """Whether a folder, made if it is missing, is for its user alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) and os.access(folder, os.W_OK)


def use_private_caches() -> None:
    """Keep the compiled code of torch, vLLM and their libraries in a private folder, for this process and its children.

    Call it before they are imported. One folder for each kind of processor, Python and torch: the code fits no other.

    Raises:
        PermissionError: see `private_folder`.
    """
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        first = file.read().partition("\n\n")[0]
    processor = [line for line in first.splitlines() if line.startswith(_PROCESSOR)]
    digest = hashlib.sha256("\n".join([*processor, sys.version, version("torch")]).encode())
    folder = private_folder(f"compiled/{platform.machine()}-{digest.hexdigest()[:12]}")
    os.environ |= {variable: str(folder / variable) for variable in _CACHES}


@contextmanager
def private_temporary_folder() -> Iterator[None]:
    """Let this process, to its end, and its children make temporary files in a new folder of mode 0700.

    The end of the block removes it. Some caches cannot be placed anywhere else.
    """
    # A process that outlives the block may still write there.
    with tempfile.TemporaryDirectory(prefix="dphrl-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        yield
