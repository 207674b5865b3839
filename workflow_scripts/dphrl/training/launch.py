"""A segment on its ranks: processes that end with each other, and with the one that asked for them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import polars as pl
import torch
from torch.distributed import TCPStore

from dphrl.artifacts.files import replacing_folder
from dphrl.artifacts.progress import send_to, stream
from dphrl.training.collectives import rank
from dphrl.training.job import SegmentJob, Timing, run_job

_START = f"from {__name__} import rank_main; rank_main()"
_HERE = "127.0.0.1"
# Gives each task of srun what torchrun would: its number among all, and on its node.
_AS_TORCHRUN = 'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID"; exec "$0" "$@"'
_SECONDS_BETWEEN_LOOKS = 0.1
# Becomes the program in its arguments, which Linux then ends with the parent, however that ends (1: PR_SET_PDEATHSIG).
# A program of its own, as a function between fork and exec needs a true fork, which Linux refuses to large processes.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


class RankError(RuntimeError):
    """A rank failed or was killed, and with it the segment."""


@dataclass(frozen=True)
class Nodes:
    """The machines of one SLURM job, of which this process is on the first; they share a file system.

    Attributes:
        number: of machines, each with equally many ranks.
        launcher: the command that starts one process per rank on them: srun, with options of its own if need be.
    """

    number: int = 1
    launcher: str = "srun"

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Self:
        """What Snakemake's resources `nodes` and `mpi` of a job say; without them one machine."""
        return cls(resources.get("nodes", 1), resources.get("mpi", "srun"))


ONE_NODE = Nodes()


def train_segment(job: SegmentJob, nodes: Nodes = ONE_NODE) -> tuple[pl.DataFrame, list[Timing]]:
    """Run a segment on as many ranks as `train.ranks` says; with one, in this process.

    Policy and state are put in place when all ranks are done.

    Args:
        nodes: what the ranks are spread over.

    Returns:
        The metrics table, and the seconds and tokens of each part, on rank 0.

    Raises:
        RankError: a rank ended before its time; nothing was put in place, so the segment can be run again.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    with replacing_folder(Path(job.policy_out)) as policy, replacing_folder(Path(job.state_out)) as state:
        job = replace(job, policy_out=str(policy), state_out=str(state))
        return run_job(job) if job.train.ranks == nodes.number == 1 else _run_on_ranks(job, nodes)


def _run_on_ranks(job: SegmentJob, nodes: Nodes) -> tuple[pl.DataFrame, list[Timing]]:
    # Beside the job's folders, where ranks on other machines see it too.
    with tempfile.TemporaryDirectory(dir=Path(job.state_out).parent, prefix=".result.", suffix=".tmp") as folder:
        result = Path(folder, "result.json")
        try:
            run_ranks(job.train.ranks, ["-c", _START, job.to_json(), str(result)], nodes)
        except RankError as error:
            raise RankError(
                f"{job.label}: {error}; its last words are in this log. Nothing of this segment was kept: run"
                " snakemake again, and it begins at the last state."
            ) from None
        answer = json.loads(result.read_text(encoding="utf-8"))
    metrics = pl.DataFrame(
        answer["metrics"], schema={"step": pl.Int32, "metric": pl.String, "value": pl.Float64}, orient="row"
    )
    return metrics, [(part, seconds, tokens) for part, seconds, tokens in answer["timings"]]


def run_ranks(ranks: int, arguments: Sequence[str], nodes: Nodes = ONE_NODE) -> None:
    """Run a Python program once for each rank, with the environment that torchrun would give it, and wait for all.

    What ranks write to standard output goes to where progress goes. The first that fails ends the others, and all end
    with this process, even if that is killed.

    Args:
        arguments: of the Python interpreter.
        nodes: what the ranks are spread over.

    Raises:
        RankError: which rank failed, and how; with several nodes, how the launcher ended.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    per_node, rest = divmod(ranks, nodes.number)
    if rest or not per_node:
        raise ValueError(f"{ranks} ranks on {nodes.number} nodes: set train.ranks to a multiple of the number of nodes")
    host = _HERE if nodes.number == 1 else socket.gethostname()
    # The store is this process's, as it is torchrun's: a port that ranks were told to open could be taken meanwhile.
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
    shared = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // per_node)),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(ranks),
    }
    program = [sys.executable, *arguments]
    if nodes.number == 1:
        started = [(f"rank {n}", program, {"RANK": str(n), "LOCAL_RANK": str(n)}) for n in range(ranks)]
    else:
        started = [(nodes.launcher, [*_tasks(nodes, per_node), "sh", "-c", _AS_TORCHRUN, *program], {})]
    with _ended() as processes:
        tied = [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid())]
        for _, command, own in started:
            environment = {**os.environ, **shared, **own}
            processes.append(subprocess.Popen([*tied, *command], env=environment, stdout=stream().fileno()))
        statuses: list[int | None] = [None]
        while None in statuses and not any(statuses):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            statuses = [process.poll() for process in processes]
    if any(statuses):
        ends = zip(started, statuses, strict=True)
        raise RankError(", ".join(f"{name} {_end(status)}" for (name, _, _), status in ends if status))


def _tasks(nodes: Nodes, per_node: int) -> list[str]:
    """The launcher with one task per rank; a task that fails ends the others."""
    tasks = [f"--nodes={nodes.number}", f"--ntasks={nodes.number * per_node}", f"--ntasks-per-node={per_node}"]
    return [*shlex.split(nodes.launcher), *tasks, "--kill-on-bad-exit=1"]


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


def rank_main() -> None:
    """One rank: arguments are the job, and the file for the result of rank 0."""
    job, result = sys.argv[1:]
    # Standard output is for progress; all else, the engines' C++ included, goes to the log with standard error.
    send_to(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {host}", flush=True)
    try:
        metrics, timings = run_job(SegmentJob.from_json(job))
        if rank() == 0:
            Path(result).write_text(json.dumps({"metrics": metrics.rows(), "timings": timings}), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    # An engine would take seconds to be taken apart, and a process group might wait for ranks that are gone.
    os._exit(status)
