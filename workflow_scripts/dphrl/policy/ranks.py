"""Starts a job on several ranks: processes that end with each other, and with the process that started them."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from pydantic import BaseModel, ConfigDict
from torch.distributed import TCPStore

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.machine.progress import stream
from dphrl.policy import rank_process as process

_LOCALHOST = "127.0.0.1"
# Gives each task of srun the variables that torchrun would set: its number among all, and on its node.
_SET_RANKS = 'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID"; exec "$0" "$@"'
# Becomes the program in its arguments, which Linux then kills when the process of the first argument, its parent, ends.
# Not a function between fork and exec: that needs a full fork, which Linux refuses to large processes.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG of <linux/prctl.h>
if os.getppid() == int(sys.argv[1]):  # A parent that ended before the call sends no signal.
    os.execvp(sys.argv[2], sys.argv[2:])
"""
_POLL_SECONDS = 0.1
_DEVICES = Path("/dev")


class RankError(RuntimeError):
    """A rank failed or was killed, which ends the job."""


class RankJob(BaseModel, ABC):
    """Inputs, outputs and settings of a job that one process or several ranks do; ranks receive it as JSON.

    Attributes:
        hardware: the block `hardware`.
        label: of messages and progress lines.
        after_failure: in the message about a failed rank: which results are kept, and the next step.
    """

    # The options of a custom scorer may be infinite.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")
    after_failure: ClassVar[str]

    hardware: HardwareConfig
    label: str

    @abstractmethod
    def work(self) -> Any:
        """Do the share of one rank. JSON can hold the result; the result of rank 0 is the answer of the job."""


@dataclass(frozen=True)
class Nodes:
    """The machines of one SLURM job, with a shared file system; this process runs on the first.

    Attributes:
        number: of machines, with equally many ranks on each.
        launcher: the command that starts one process per rank on them: srun, with further options if needed.
    """

    number: int = 1
    launcher: str = "srun"

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Self:
        """From the resources `nodes` and `mpi` of a Snakemake job; without them one machine."""
        return cls(resources.get("nodes", 1), resources.get("mpi", "srun"))


ONE_NODE = Nodes()


def run_on_ranks(job: RankJob, ranks: int, folder: Path, nodes: Nodes = ONE_NODE) -> Any:
    """Do a job on ranks; return the answer of rank 0.

    Args:
        folder: for temporary files that ranks on other machines see too.

    Raises:
        RankError: a rank failed or was killed; the message has `after_failure` of the job, and what each rank raised.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    kind = type(job)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".ranks.", suffix=".tmp") as temporary:
        question, answer = Path(temporary, "job.json"), Path(temporary, "answer.json")
        question.write_text(job.model_dump_json(), encoding="utf-8")
        program = ["-m", process.__name__, kind.__module__, kind.__qualname__]
        try:
            run_ranks(ranks, [*program, str(question), str(answer)], nodes)
        except RankError as error:
            ended, *raised = error.args
            raise RankError("\n".join([f"{job.label}: {ended}. {job.after_failure}", *raised])) from None
        return json.loads(answer.read_text(encoding="utf-8"))


def run_ranks(ranks: int, arguments: Sequence[str], nodes: Nodes = ONE_NODE) -> None:
    """Run a Python program once for each rank, with the environment that torchrun would set, and wait for all.

    Standard output of the ranks goes to the stream of progress. The first rank that fails ends the others, and all end
    with this process, even if it is killed.

    Args:
        arguments: of the Python interpreter.
        nodes: the machines that the ranks are spread over.

    Raises:
        RankError: a rank failed; with several nodes, the launcher failed. Its arguments say how each process ended, and
            what each rank raised.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    per_node, rest = divmod(ranks, nodes.number)
    if rest or not per_node:
        raise ValueError(f"{ranks} ranks on {nodes.number} nodes: set hardware.ranks to a multiple of the nodes")
    host = _LOCALHOST if nodes.number == 1 else socket.gethostname()
    # This process holds the store, as torchrun does: a port that rank 0 opens later could be taken meanwhile.
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
    threads = str(threads_of_rank(per_node))
    shared = {
        # The packages of a module system (`module load`) may be known by this variable alone.
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])),
        # Snakemake sets both to the threads of the rule, and PyTorch obeys MKL's.
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "MASTER_ADDR": host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(ranks),
    }
    program = [sys.executable, *arguments]
    if nodes.number == 1:
        commands = [(f"rank {n}", program, {"RANK": str(n), "LOCAL_RANK": str(n)}) for n in range(ranks)]
    else:
        tasks = [f"--nodes={nodes.number}", f"--ntasks={ranks}", f"--ntasks-per-node={per_node}"]
        launcher = [*shlex.split(nodes.launcher), *tasks, "--kill-on-bad-exit=1", "sh", "-c", _SET_RANKS]
        commands = [(nodes.launcher, [*launcher, *program], {})]
    wrapper = [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid())]
    processes: dict[str, subprocess.Popen[bytes]] = {}
    statuses: list[int | None] = [None]
    try:
        for name, command, variables in commands:
            environment = {**os.environ, **shared, **variables}
            processes[name] = subprocess.Popen([*wrapper, *command], env=environment, stdout=stream().fileno())
        while None in statuses and not any(statuses):
            time.sleep(_POLL_SECONDS)
            statuses = [started.poll() for started in processes.values()]
    finally:
        for started in processes.values():
            started.kill()
            started.wait()
    if any(statuses):
        ends = zip(processes, statuses, strict=True)
        raised = [store.get(name).decode() for n in range(ranks) if store.check([name := f"raised-{n}"])]
        raise RankError(", ".join(f"{name} {_describe(status)}" for name, status in ends if status), *raised)


def threads_of_rank(ranks: int) -> int:
    """Threads of each of the ranks on a machine.

    On a CPU the threads of the rule, divided by the ranks. With a GPU threads change no result, and an offloaded
    optimizer needs them: then at least a share of the SLURM job or, without SLURM, of the machine.
    """
    threads = torch.get_num_threads() // ranks
    if torch.cuda.is_available():
        # Of all users and jobs: CUDA_VISIBLE_DEVICES hides none of these files.
        cards = max(ranks, len([*_DEVICES.glob("nvidia[0-9]*")]))
        share = len(os.sched_getaffinity(0)) // cards
        threads = max(threads, int(of_job) // ranks if (of_job := os.environ.get("SLURM_CPUS_ON_NODE")) else share)
    return max(1, threads)


def cores_of_rank(ranks: int, nodes: int) -> int:
    """Cores for the other processes of a rank: a share of the job on one machine, all of its task on several."""
    if nodes > 1:
        return int(os.environ.get("SLURM_CPUS_PER_TASK", 1))
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def _describe(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    hint = " (is memory short?)" if status == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-status).name}{hint}"
