"""A segment on its ranks: processes that end with each other, and with the one that asked for them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch
from torch.distributed import TCPStore

from dphrl.artifacts import replacing_folder
from dphrl.artifacts.progress import send_to, stream
from dphrl.training.job import SegmentJob, Timing, run_job
from dphrl.training.ranks import rank

_START = f"from {__name__} import rank_main; rank_main()"
_HOST = "127.0.0.1"
_SECONDS_BETWEEN_LOOKS = 0.1
_PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec nothing may wait for a lock that another thread held.
_LIBC = ctypes.CDLL(None)


class RankError(RuntimeError):
    """A rank failed or was killed, and with it the segment."""


def train_segment(job: SegmentJob) -> tuple[pl.DataFrame, list[Timing]]:
    """Run a segment on as many ranks as `train.ranks` says; with one, in this process.

    Policy and state are put in place when all ranks are done.

    Returns:
        The metrics table, and the seconds and tokens of each part, on rank 0.

    Raises:
        RankError: a rank ended before its time; nothing was put in place, so the segment can be run again.
    """
    with replacing_folder(Path(job.policy_out)) as policy, replacing_folder(Path(job.state_out)) as state:
        job = replace(job, policy_out=str(policy), state_out=str(state))
        return run_job(job) if job.train.ranks == 1 else _run_on_ranks(job)


def _run_on_ranks(job: SegmentJob) -> tuple[pl.DataFrame, list[Timing]]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as result:
        descriptors = (result.fileno(), stream().fileno())
        try:
            run_ranks(job.train.ranks, ["-c", _START, job.to_json(), *map(str, descriptors)], descriptors)
        except RankError as error:
            raise RankError(
                f"{job.label}: {error}; its last words are in this log. Nothing of this segment was kept: run"
                " snakemake again, and it begins at the last state."
            ) from None
        result.seek(0)
        answer = json.load(result)
    metrics = pl.DataFrame(
        answer["metrics"], schema={"step": pl.Int32, "metric": pl.String, "value": pl.Float64}, orient="row"
    )
    return metrics, [(part, seconds, tokens) for part, seconds, tokens in answer["timings"]]


def run_ranks(ranks: int, arguments: Sequence[str], descriptors: Sequence[int] = ()) -> None:
    """Run a Python program once for each rank, with the environment that torchrun would give it, and wait for all.

    The first that fails ends the others, and all end with this process, even if that is killed.

    Args:
        arguments: of the Python interpreter.
        descriptors: open files that the ranks get under the same numbers.

    Raises:
        RankError: which rank failed, and how.
    """
    # The store is this process's, as it is torchrun's: a port that ranks were told to open could be taken meanwhile.
    store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    shared = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // ranks)),
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(ranks),
    }
    with _ended() as processes:
        for number in range(ranks):
            processes.append(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    env={**os.environ, **shared, "RANK": str(number), "LOCAL_RANK": str(number)},
                    pass_fds=descriptors,
                    preexec_fn=_end_with_parent,
                )
            )
        statuses: list[int | None] = [None]
        while None in statuses and not any(statuses):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            statuses = [process.poll() for process in processes]
    if any(statuses):
        raise RankError(", ".join(f"rank {i} {_end(status)}" for i, status in enumerate(statuses) if status))


@contextmanager
def _ended() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list whose processes are no more behind this block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _end(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}" + (
        " (is memory short?)" if status == -signal.SIGKILL else ""
    )


def _end_with_parent() -> None:
    """Ask Linux to end this process with its parent, however that ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def rank_main() -> None:
    """One rank: arguments are the job, and the descriptors of the file for its result and of the terminal."""
    job, result, terminal = sys.argv[1:]
    send_to(os.fdopen(int(terminal), "w", buffering=1))
    try:
        metrics, timings = run_job(SegmentJob.from_json(job))
        if rank() == 0:
            with os.fdopen(int(result), "w", encoding="utf-8") as file:
                json.dump({"metrics": metrics.rows(), "timings": timings}, file)
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    # An engine would take seconds to be taken apart, and a process group might wait for ranks that are gone.
    os._exit(status)
