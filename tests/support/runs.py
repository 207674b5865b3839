"""A copy of the project, and runs of it, each in its own folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "workflow" / "tiny.yaml"
_PROJECT = ("Snakefile", "rules", "workflow_scripts", "config", "profiles", "examples")
# The only files whose bytes may differ between equal runs: durations, and the page that shows them.
TIMED = re.compile(r"(timings|logs)/|report/index\.html|SHA256SUMS")


def copy_project(folder: Path) -> Path:
    """Copy what a run needs into a folder; a test may change the copy's code."""
    for part in _PROJECT:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, folder / part)
    return folder


@dataclass(frozen=True)
class Workflow:
    """A run in `folder` of the copied project."""

    project: Path
    folder: Path
    config: Path
    name: str = "tiny"
    changed: tuple[Path, ...] = ()
    """The files that `config` changes."""

    @classmethod
    def of(cls, project: Path, folder: Path, config: Mapping[str, Any], name: str = "tiny") -> Self:
        """A run whose configuration is written to its folder."""
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return cls(project, folder, path, name)

    @property
    def results(self) -> Path:
        """The folder of its artifacts."""
        return self.folder / "results" / self.name

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its Snakemake."""
        return dict(os.environ) | self.variables

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that every run sets."""
        return {"PYTHONPATH": str(self.project / "workflow_scripts"), "OMP_NUM_THREADS": "1"}

    def command(self, *arguments: str) -> list[str]:
        """The command that runs Snakemake through the launcher."""
        launcher = str(self.project / "workflow_scripts" / "launch.py")
        files = map(str, (*self.changed, self.config))
        options = ["--directory", str(self.folder), "--configfile", *files, "--cores", "2"]
        return [sys.executable, launcher, *options, *arguments]

    def start(self, *arguments: str, background: bool = False, own_session: bool = False) -> subprocess.Popen[str]:
        """Start the run; its output goes to a file in the folder.

        Args:
            background: as in the background of a script, where SIGINT is ignored, and under `nohup`, SIGHUP too.
            own_session: as from a terminal: a signal to its group reaches the jobs, and not the test.
        """
        ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"] if background else []
        return subprocess.Popen(
            [*ignoring, *self.command(*arguments)],
            cwd=self.project,
            env=self.environment,
            stdout=(self.folder / "output.txt").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=own_session,
        )

    def output(self) -> str:
        """What the run has printed since it was last started."""
        return (self.folder / "output.txt").read_text()

    def run(self, *arguments: str) -> str:
        """Run to the end and return what was printed; fails the test if Snakemake fails."""
        code = self.start(*arguments).wait()
        assert code == 0, self.output()[-6000:]
        return self.output()

    def stages(self) -> Counter[str]:
        """How many jobs of each rule ended in the last run, as Snakemake's own log says."""
        log = max((self.folder / ".snakemake" / "log").glob("*.snakemake.log"))
        return Counter(re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)$", log.read_text(), re.MULTILINE))

    def plan(self, *arguments: str) -> list[str]:
        """The jobs that a run would start now, by the messages of their rules, sorted; targets have none."""
        return sorted(re.findall(r"^- (.* .*)$", self.run("--dry-run", *arguments), re.MULTILINE))

    def configured(self, **blocks: object) -> Workflow:
        """The same workflow with blocks of its config updated (one level deep)."""
        data = yaml.safe_load(self.config.read_text())
        for name, block in blocks.items():
            data[name] = {**data.get(name, {}), **block} if isinstance(block, dict) else block
        path = self.folder / f"config-{len(list(self.folder.glob('config-*.yaml')))}.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return replace(self, config=path)

    def overlaid(self, **blocks: object) -> Workflow:
        """The same workflow with one more file of its configuration."""
        path = self.folder / f"overlay-{len(self.changed)}.yaml"
        path.write_text(yaml.safe_dump(blocks, sort_keys=False))
        return replace(self, config=path, changed=(*self.changed, self.config))

    def copied(self, folder: Path) -> Workflow:
        """A copy of the run in its present state, in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return replace(self, folder=folder)

    def digests(self) -> dict[str, str]:
        """sha256 of every file of the run but the timed ones; folders that are links into a cache count."""
        walked = os.walk(self.results, followlinks=True)
        paths = (Path(folder, name) for folder, _, names in walked for name in names)
        files = sorted(path for path in paths if path.name != ".snakemake_timestamp")
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

    def kill(self, process: subprocess.Popen[str]) -> None:
        """SIGKILL to Snakemake and all jobs, as the out-of-memory killer does."""
        for killed in [psutil.Process(process.pid), *self.jobs()]:
            killed.kill()
        process.wait()


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
