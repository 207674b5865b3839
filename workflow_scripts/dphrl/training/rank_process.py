"""The program of one rank (`python -m`); its arguments are the job, and the file for the result of rank 0."""

import json
import os
import socket
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

from dphrl.artifacts.private import private_temporary_folder
from dphrl.artifacts.progress import send_to
from dphrl.training.collectives import rank
from dphrl.training.job import SegmentJob, run_job


def main() -> None:
    """Run the job; the exit status is 1 if it fails."""
    job, result = sys.argv[1:]
    # Standard output is for progress; everything else, the engines' C++ included, goes to the log on standard error.
    send_to(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {host}", flush=True)
    try:
        # That of the job is on its first machine only.
        shared = Path(os.environ.get("TMPDIR", "")).is_dir()
        with nullcontext() if shared else private_temporary_folder():
            trained = run_job(SegmentJob.from_json(job))
        if rank() == 0:
            answer = {**trained._asdict(), "metrics": trained.metrics.rows()}
            Path(result).write_text(json.dumps(answer), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    # Shutting an engine down takes seconds, and a process group might wait for ranks that are gone.
    os._exit(status)


if __name__ == "__main__":
    main()
