"""The workflow whose stages are jobs of a cluster."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

import yaml
from cluster import Cluster
from runs import Workflow

# Of a training or the reference with two ranks, by nodes. For one rank on each node the plugin needs `tasks` and no
# number of tasks per GPU.
RANKS = {
    1: {"nodes": 1, "gpu": 2, "cpus_per_task": 2},
    2: {"mpi": "srun", "nodes": 2, "tasks": 2, "tasks_per_gpu": 0, "gpu": 2, "cpus_per_task": 1},
}


@dataclass(frozen=True)
class Submitted(Workflow):
    """The workflow with its stages as jobs of the cluster.

    Attributes:
        walltime: of a segment of a training, in minutes; empty: the limit of the rule.
        nodes: of a training and of the reference.
    """

    cluster: Cluster | None = None
    walltime: str = ""
    nodes: int = 2

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its Snakemake, whose SLURM commands reach this cluster alone."""
        assert self.cluster is not None
        return self.cluster.environment | self.variables

    def command(self, *arguments: str) -> list[str]:
        """Snakemake with the project's SLURM profile, adapted to this cluster as a user would do."""
        profile = yaml.safe_load((self.project / "profiles/slurm/config.yaml").read_text())
        of_ranks = {rule: dict(RANKS[self.nodes]) for rule in ("tensorise", "train_segment")}
        # Less than an import of torch needs.
        of_ranks["tensorise"]["mem_mb"] = "300 if attempt == 1 else 6000"
        if self.walltime:
            of_ranks["train_segment"]["runtime"] = self.walltime
        profile["set-resources"] = of_ranks
        # Poll the states of jobs after seconds, not after a minute.
        quick = {"slurm-init-seconds-before-status-checks": 3, "slurm-no-account": True, "latency-wait": 10}
        folder = self.folder / "profile"
        shutil.copytree(self.project / "profiles/slurm", folder, dirs_exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(profile | quick))
        launcher = [sys.executable, str(self.project / "workflow_scripts/launch.py"), "--directory", str(self.folder)]
        options = ["--profile", str(folder), "--configfile", str(self.config)]
        return [*launcher, *options, *arguments]
