"""What the program of each rank (`python -m`) does; its arguments are files: the job, and the answer of rank 0."""

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from dphrl.artifacts.private import private_temporary_folder
from dphrl.artifacts.progress import send_to


def run_rank(work: Callable[[str], Any]) -> NoReturn:
    """Do the work of this rank and end the process; the exit status is 1 if it fails.

    Args:
        work: makes the answer, which JSON can hold, from the text of the job.
    """
    job, answer = map(Path, sys.argv[1:])
    # Standard output is for progress; everything else, the engines' C++ included, goes to the log on standard error.
    send_to(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {host}", flush=True)
    try:
        # That of the job is on its first machine only.
        shared = Path(os.environ.get("TMPDIR", "")).is_dir()
        with nullcontext() if shared else private_temporary_folder():
            result = work(job.read_text(encoding="utf-8"))
        if os.environ["RANK"] == "0":
            answer.write_text(json.dumps(result), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    # Shutting an engine down takes seconds, and a process group might wait for ranks that are gone.
    os._exit(status)
