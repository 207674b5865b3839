"""A copy of the project at work in a folder of its own."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import yaml

# The only files whose bytes may differ between equal runs: how long things took, and the page that tells it.
TIMED = re.compile(r"(timings|logs)/|report/index\.html")


@dataclass(frozen=True)
class Workflow:
    """A copy of the project at `house` that works in the folder `folder`."""

    house: Path
    folder: Path
    config: Path
    name: str = "tiny"

    @property
    def results(self) -> Path:
        """Where its files are."""
        return self.folder / "results" / self.name

    def command(self, *arguments: str) -> list[str]:
        """Snakemake by the launcher."""
        launcher = [sys.executable, str(self.house / "workflow_scripts" / "launch.py"), "--directory", str(self.folder)]
        return [*launcher, "--configfile", str(self.config), "--cores", "2", *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it, its output to a file in the folder."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.house,
            env=os.environ | {"PYTHONPATH": str(self.house / "workflow_scripts"), "OMP_NUM_THREADS": "1"},
            stdout=(self.folder / "output.txt").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self) -> str:
        """What the last start has printed so far."""
        return (self.folder / "output.txt").read_text()

    def run(self, *arguments: str) -> str:
        """Run to the end; returns what was printed, and fails the test if Snakemake did."""
        code = self.start(*arguments).wait()
        assert code == 0, self.output()[-6000:]
        return self.output()

    def plan(self, *arguments: str) -> list[str]:
        """The messages of the jobs that would run now, sorted."""
        return sorted(re.findall(r"^Job \d+: (.+)$", self.run("--dry-run", *arguments), re.MULTILINE))

    def configured(self, **blocks: object) -> Workflow:
        """The same workflow with blocks of its config updated (one level deep)."""
        data = yaml.safe_load(self.config.read_text())
        for name, block in blocks.items():
            data[name] = {**data[name], **block} if isinstance(block, dict) else block
        path = self.folder / f"config-{len(list(self.folder.glob('config-*.yaml')))}.yaml"
        path.write_text(yaml.safe_dump(data))
        return replace(self, config=path)

    def copied(self, folder: Path) -> Workflow:
        """The run as it stands, in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return replace(self, folder=folder)

    def digests(self) -> dict[str, str]:
        """sha256 of every file of the run, timings apart."""
        files = sorted(path for path in self.results.rglob("*") if path.is_file())
        named = {path.relative_to(self.results).as_posix(): path for path in files}
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in named.items() if not TIMED.match(name)
        }

    def wait_for(self, text: str, process: subprocess.Popen[str], seconds: float = 240) -> None:
        """Wait until the run has printed `text`."""
        deadline = time.monotonic() + seconds
        while text not in self.output():
            assert process.poll() is None, f"the run ended before it printed {text!r}:\n{self.output()[-3000:]}"
            assert time.monotonic() < deadline, f"no {text!r} within {seconds} s:\n{self.output()[-3000:]}"
            time.sleep(0.05)

    def jobs(self) -> list[psutil.Process]:
        """The processes of this run's jobs."""
        scripts = f"{self.folder.resolve()}/.snakemake/scripts/"
        return [p for p in psutil.process_iter(["cmdline"]) if scripts in " ".join(p.info["cmdline"] or [])]


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL, as a crash or an out-of-memory killer does it."""
    for process in processes:
        process.send_signal(signal.SIGKILL)
