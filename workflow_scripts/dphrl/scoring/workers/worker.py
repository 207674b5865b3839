"""The worker process, which judges answers: reads tasks on standard input, writes replies on standard output.

It limits its resources, leaves the network, and ends when its parent does.
"""

import ctypes
import gc
import math
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO, Final

from dphrl.scoring.math.handler import MathHandler
from dphrl.scoring.sql.handler import SqlHandler
from dphrl.scoring.workers.messages import Handler, Message, encode, error_reply, read

_ORPHAN_POLL_MS: Final = 2000
# From <linux/sched.h>.
_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_OBJECTS_PER_COLLECTION: Final = 100_000
_HANDLERS: Final[dict[str, Callable[[Message], Handler]]] = {"sql": SqlHandler, "math": MathHandler}


def main() -> None:
    """Serve tasks until standard input ends. The first message holds kind, options, memory_mib and cpu_s."""
    # A batch system may send it to every process of a job; SQLite would take it for the end of an answer's time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    # The output of a library must not mix with the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.set_blocking(2, False)
    first = read(requests)
    if first is None:
        return
    _leave_network()
    threading.Thread(target=_die_with_parent, args=(requests.fileno(), os.getppid()), daemon=True).start()
    _limit(first["memory_mib"])
    handler = _HANDLERS[first["kind"]](first["options"])
    # Results are many small objects, few of them in cycles: collect garbage less often than every 700.
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _send(replies, {"ready": True})
    while (batch := read(requests)) is not None:
        for task in batch["tasks"]:
            _allow_cpu(first["cpu_s"])
            try:
                reply = handler.run(task)
            except BaseException as error:
                # An error in a library must not end the scoring of other answers.
                reply = error_reply(error)
            _send(replies, {**reply, "id": task["id"]})


def _send(stream: BinaryIO, message: Message) -> None:
    stream.write(encode(message))
    stream.flush()


def _leave_network() -> None:
    """Enter a network namespace without interfaces: no task needs a network, and no exploit gets one.

    Where the kernel has no user namespaces, only root may do this; for other users it does nothing.
    """
    unshare = ctypes.CDLL(None).unshare
    # Root needs no user namespace, in which it would lose access to other users' files.
    if unshare(_NEW_NETWORK):
        unshare(_NEW_USER | _NEW_NETWORK)


def _limit(memory_mib: int) -> None:
    """Bound memory; forbid writing files, new processes and core dumps."""
    limits = (
        (resource.RLIMIT_AS, memory_mib * 2**20),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 0),
    )
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _allow_cpu(seconds: float) -> None:
    """Move the soft limit of CPU time (which counts from the start of the process) to `seconds` from now."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _die_with_parent(requests: int, parent: int) -> None:
    """End the process, even in the middle of a task, once the parent closes the pipe or ends."""
    poll = select.poll()
    poll.register(requests, 0)
    while not poll.poll(_ORPHAN_POLL_MS) and os.getppid() == parent:
        pass
    os._exit(0)
