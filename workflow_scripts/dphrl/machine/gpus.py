"""The GPUs of a machine: each job takes as many as it asks for and holds them until it ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

from dphrl.machine.private import private_folder

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_POLL_SECONDS = 1.0
# Open for as long as this process lives: the kernel frees their locks, however it ends.
_held: list[int] = []


def take_gpus(number: int) -> list[str]:
    """Wait until `number` GPUs are free, and make them the only ones that this process and its children see.

    Call it before CUDA starts. CUDA_VISIBLE_DEVICES lists the GPUs of this machine, or nvidia-smi where it is not set.
    All jobs of this user on this machine get different GPUs; jobs of other users are not seen.

    Args:
        number: 0 takes none and changes nothing.

    Returns:
        Their entries for CUDA_VISIBLE_DEVICES, in its order; none on a machine without GPUs.

    Raises:
        ValueError: there are GPUs, but fewer than `number`.
    """
    gpus = _gpus() if number else {}
    if not gpus:
        return []
    if len(gpus) < number:
        raise ValueError(
            f"this job needs {number} GPUs, and this machine shows {len(gpus)} ({', '.join(gpus)}): lower"
            f" hardware.ranks or hardware.tensor_parallel, or set {_VISIBLE} to more"
        )
    locks = private_folder(f"gpus/{os.uname().nodename}")
    # First come, first served: else jobs that need one GPU would pass one that waits for several.
    queue = _open(locks / "queue")
    fcntl.flock(queue, fcntl.LOCK_EX)
    taken = _take(number, gpus, locks)
    if len(taken) < number:
        print(f"waiting for {number} of {len(gpus)} GPUs", file=sys.stderr, flush=True)
    while len(taken) < number:
        time.sleep(_POLL_SECONDS)
        taken = _take(number, gpus, locks)
    os.close(queue)
    _held.extend(taken.values())
    os.environ[_VISIBLE] = ",".join(taken)
    return list(taken)


def _take(number: int, gpus: dict[str, str], locks: Path) -> dict[str, int]:
    """As many free GPUs, each with the descriptor that holds its lock; none if there are too few."""
    taken: dict[str, int] = {}
    for entry, name in gpus.items():
        descriptor = _open(locks / name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken[entry] = descriptor
        except BlockingIOError:
            os.close(descriptor)
        if len(taken) == number:
            return taken
    for descriptor in taken.values():
        os.close(descriptor)
    return {}


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _gpus() -> dict[str, str]:
    """The visible GPUs: entry for CUDA_VISIBLE_DEVICES, and a name that is the same in all containers and jobs.

    A number may stand for different GPUs in two jobs, of which a scheduler shows each only some; a UUID does not.
    """
    try:
        query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout
        uuids = dict(line.split(", ") for line in answer.splitlines())
    except (OSError, subprocess.SubprocessError, ValueError):
        uuids = {}
    visible = os.environ.get(_VISIBLE)
    entries = list(uuids) if visible is None else [entry.strip() for entry in visible.split(",") if entry.strip()]
    # CUDA ends the list at the first entry that is no GPU, such as -1.
    shown = takewhile(lambda entry: entry.isdecimal() or entry.startswith(("GPU-", "MIG-")), entries)
    return {entry: uuids.get(entry, entry).replace("/", "_") for entry in shown}
