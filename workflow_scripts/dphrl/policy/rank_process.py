"""The program of one rank: `python -m dphrl.policy.rank_process MODULE CLASS JOB ANSWER`.

It does the job in the file JOB, which is a `RankJob` of this class; rank 0 writes its answer to the file ANSWER. A rank
that fails puts what it raised into the store of its parent, which a full disk leaves intact.
"""

import json
import os
import socket
import sys
import traceback
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from torch.distributed import TCPStore

from dphrl.machine.cause import described
from dphrl.machine.private import private_temporary_folder
from dphrl.machine.progress import send_to


def main(module: str, kind: str, job: str, answer: str) -> NoReturn:
    """Do the work of this rank and end the process; the exit status is 1 if it fails."""
    job_class = getattr(import_module(module), kind)
    # Standard output is for progress; everything else, the engines' C++ included, goes to the log on standard error.
    send_to(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {host}", flush=True)
    try:
        # The folder of temporary files of the job is on its first machine only.
        shared = Path(os.environ.get("TMPDIR", "")).is_dir()
        with nullcontext() if shared else private_temporary_folder():
            result = job_class.model_validate_json(Path(job).read_text(encoding="utf-8")).work()
        if os.environ["RANK"] == "0":
            Path(answer).write_text(json.dumps(result), encoding="utf-8")
        status = 0
    except BaseException as error:
        traceback.print_exc()
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        store.set(f"raised-{os.environ['RANK']}", f"rank {os.environ['RANK']}: {described(error)}")
        status = 1
    sys.stdout.flush()
    # Shutting an engine down takes seconds, and a process group might wait for ranks that are gone.
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
