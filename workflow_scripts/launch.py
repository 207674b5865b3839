"""Start Snakemake in a folder, also after a kill -9. All arguments are passed to Snakemake.

Snakemake cannot do this: after a kill -9 it refuses to start, and its jobs go on as orphans. This program ends them,
removes their temporary files and the lock, unless another Snakemake of the folder is running; then it runs Snakemake.

Ctrl-C, SIGTERM (docker stop, a batch system) and SIGHUP end the jobs within seconds, in the background of a script too,
with the exit status 130, 143 or 129. The same command goes on. `snakemake` by itself lets the jobs end after SIGTERM.
"""

import argparse
import logging
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil
from snakemake.cli import main
from snakemake.scheduling.job_scheduler import JobScheduler

from dphrl.machine.leftovers import AtWorkError, UnwritableError, remove_leftovers

# For Snakemake to note the interrupt before a job fails; then for jobs that write a file or ignore SIGTERM.
_NOTED_S, _PATIENCE_S = 0.3, 5.0
ended_by = 0


def end(number: int, frame: FrameType | None) -> None:
    """End the jobs, and Snakemake as by Ctrl-C, which it answers with an ordinary failure."""
    global ended_by
    if ended_by:
        return
    ended_by = number
    threading.Thread(target=end_jobs, daemon=True).start()
    # Without it Snakemake would print errors of its asyncio loop, which the interrupt may have left running.
    logging.lastResort = logging.NullHandler()
    signal.default_int_handler(number, frame)


def end_jobs() -> None:
    """SIGTERM to all processes below this one; SIGKILL to those that are left after some seconds."""
    time.sleep(_NOTED_S)
    jobs = psutil.Process().children(recursive=True)
    for job in jobs:
        with suppress(psutil.NoSuchProcess):
            job.terminate()
    for job in psutil.wait_procs(jobs, timeout=_PATIENCE_S)[1]:
        with suppress(psutil.NoSuchProcess):
            job.kill()


def run() -> int:
    """Run Snakemake; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="Options of Snakemake: snakemake --help")
    parser.add_argument("--directory", "-d", type=Path, default=Path(), help="where to run; default: this folder")
    folder = parser.parse_known_args()[0].directory.resolve()
    try:
        remove_leftovers(folder)
    except (AtWorkError, UnwritableError) as error:
        sys.exit(str(error))
    # Set, and not only caught: a shell starts commands in the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    # Snakemake sets this handler of SIGTERM later, which lets the jobs at work end by themselves.
    JobScheduler.exit_gracefully = staticmethod(end)
    try:
        main(sys.argv[1:])
    except (KeyboardInterrupt, SystemExit):
        if not ended_by:
            raise
    end_jobs()
    remove_leftovers(folder)
    return 128 + ended_by


if __name__ == "__main__":
    sys.exit(run())
