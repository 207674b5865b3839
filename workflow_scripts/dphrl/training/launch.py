"""A segment on several ranks: torchrun starts them, and they end with the process that asked for them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

from dphrl.training.job import SegmentJob, Timing, run_job
from dphrl.training.ranks import rank

_PR_SET_PDEATHSIG = 1


class RankError(RuntimeError):
    """A rank failed or was killed, and with it the segment."""


def train_segment(job: SegmentJob) -> tuple[pl.DataFrame, list[Timing]]:
    """Run a segment on as many ranks as `train.ranks` says; with one, in this process.

    Returns:
        The metrics table, and the seconds and tokens of each part, on rank 0.

    Raises:
        RankError: a rank ended before its time; nothing was put in place, so the segment can be run again.
    """
    if job.train.ranks == 1:
        return run_job(job)
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "job.json", Path(folder) / "result.json"
        given.write_text(job.to_json(), encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        ended = subprocess.run(
            [*command, str(job.train.ranks), "-m", __name__, str(given), str(result)],
            preexec_fn=_end_with_parent,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        if ended.returncode or not result.exists():
            raise RankError(
                f"{job.label}: a rank ended before its time (status {ended.returncode}); its last words are in this"
                " log. Nothing of this segment was kept: run snakemake again, and it begins at the last state."
            )
        answer = json.loads(result.read_text(encoding="utf-8"))
    metrics = pl.DataFrame(
        answer["metrics"], schema={"step": pl.Int32, "metric": pl.String, "value": pl.Float64}, orient="row"
    )
    return metrics, [(part, seconds, tokens) for part, seconds, tokens in answer["timings"]]


def _end_with_parent() -> None:
    """Ask Linux to end this process with its parent, even if that is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_parent() -> None:
    """A rank ends when torchrun does: nothing else would tell it."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _main() -> None:
    """One rank: arguments are the files of the job and of its result."""
    threading.Thread(target=_watch_parent, daemon=True).start()
    metrics, timings = run_job(SegmentJob.from_json(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps({"metrics": metrics.rows(), "timings": timings}), encoding="utf-8")
    sys.stdout.flush()
    # As in the doors: an engine would take seconds to be taken apart.
    os._exit(0)


if __name__ == "__main__":
    _main()
