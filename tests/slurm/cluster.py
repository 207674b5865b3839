"""A private SLURM cluster on this machine: munge, a controller and two nodes.

Configuration, key, sockets and logs are in one folder. Only programs whose `SLURM_CONF` names its configuration reach
it, so a test without the variable fails instead of reaching another cluster of this machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("node1", "node2")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

# Without cgroups, memory is polled, and a job above its limit is killed. Without accounting, the controller keeps a
# job's state for MinJobAge.
_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill,UsePss
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SchedulerParameters=batch_sched_delay=0,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
MinJobAge=600
KillWait=5
GresTypes=gpu
AccountingStorageType=accounting_storage/none
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
PartitionName=cpu Nodes=node[1-2] Default=YES MaxTime=1-0 State=UP
PartitionName=gpu Nodes=node[1-2] MaxTime=1-0 State=UP
"""


def missing() -> list[str]:
    """The programs that must be installed first, as messages."""
    programs = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    messages = [f"{', '.join(programs)}: apt-get install --no-install-recommends slurm-wlm munge"] if programs else []
    plugin = importlib.util.find_spec("snakemake_executor_plugin_slurm")
    return messages if plugin else [*messages, "snakemake-executor-plugin-slurm: make test-slurm installs it"]


@dataclass(frozen=True)
class Cluster:
    """A running cluster in `folder`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which SLURM's commands reach this cluster and no other."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        return outside | {"PATH": f"{self.folder}/bin:{_PATH}", "SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *command: str) -> str:
        """The output of a SLURM command."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start a cluster in an empty folder with a short path (sockets), and stop what was started."""
    cluster = Cluster(folder)
    _write_configuration(folder)
    daemons: list[subprocess.Popen[bytes]] = []

    def start(name: str, *command: str) -> None:
        output = (folder / f"{name}.out.log").open("wb")
        # In a separate session, or Ctrl-C would end the daemon before the jobs that run on it.
        daemons.append(
            subprocess.Popen(command, env=cluster.environment, stdout=output, stderr=output, start_new_session=True)
        )

    try:
        files = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munge.log", "pid-file": "munge.pid"}
        options = [f"--{name}={folder / file}" for name, file in {**files, "seed-file": "munge.seed"}.items()]
        start("munged", "munged", "--foreground", "--force", *options)
        _wait_for(cluster, (folder / "munge.socket").exists)
        start("slurmctld", "slurmctld", "-D", "-i")
        for node in NODES:
            start(node, "slurmd", "-D", "-N", node)
        _wait_for(cluster, lambda: cluster.ask("sinfo", "-h", "-N", "-p", "cpu", "-o", "%T").split() == ["idle"] * 2)
        yield cluster
        subprocess.run(["scancel", "--user", str(os.getuid())], env=cluster.environment, check=False)
        _wait_for(cluster, lambda: not cluster.ask("squeue", "-h", "-t", "running,completing").split())
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=20)


def _write_configuration(folder: Path) -> None:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    # SLURM counts a resource by its files; these represent the two GPUs of a node.
    for number in range(2):
        (folder / f"gpu{number}").touch()
    user = os.environ.get("USER") or subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(_CONF.format(folder=folder, host=host, user=user, ports=_free_ports(3)))
    # In a job Snakemake's plugin removes SLURM's variables from the environment before it calls srun.
    srun = folder / "bin/srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/sh\nSLURM_CONF="{folder}/slurm.conf" exec "{shutil.which("srun", path=_PATH)}" "$@"\n')
    srun.chmod(0o755)
    (folder / "gres.conf").write_text(f"NodeName=node[1-2] Name=gpu File={folder}/gpu[0-1]\n")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def _wait_for(cluster: Cluster, condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except subprocess.CalledProcessError:
            pass  # The controller does not answer yet.
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cluster does not start or stop\n{cluster.logs()}")
        time.sleep(0.2)
