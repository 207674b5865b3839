"""Mistakes that Snakemake answers, as a user meets them: at the start, in a job, and Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from runs import Workflow

from dphrl.plan.start import check_planned

pytestmark = pytest.mark.workflow

EXPERIMENT = Path(__file__).resolve().parents[2] / "examples/custom_scorer/config.yaml"


@pytest.fixture
def workflow(project: Path, tmp_path: Path) -> Workflow:
    """The worked example of a custom scorer, which needs no model."""
    (tmp_path / "examples").symlink_to(project / "examples")
    return Workflow(project, tmp_path, EXPERIMENT, "custom-scorer")


def snakemake(workflow: Workflow, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Snakemake itself, not the launcher, in a folder; standard output and error together."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(workflow.project / "Snakefile"), "--cores", "2"]
    command += ["--workflow-profile", str(workflow.project / "profiles/default"), *arguments]
    options = {"env": workflow.environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_a_target_behind_the_configuration_is_explained(workflow: Workflow) -> None:
    """Other commands that Snakemake cannot read: tests/unit/test_terminal.py."""
    done = snakemake(workflow, workflow.folder, "--configfile", str(EXPERIMENT), "presample")
    assert done.returncode == 1
    assert "All words after --configfile are read as files: name targets" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_job_refuses_a_configuration_that_was_edited_since_the_plan(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = yaml.safe_load(EXPERIMENT.read_text())
    # As an executor starts a submitted job: with the environment of the process that planned.
    monkeypatch.setenv("DPHRL_PLANNED", "")
    check_planned(data, plans=True)
    job = ["--mode", "remote", "--dry-run", "--configfile"]
    edited = tmp_path / "edited.yaml"
    edited.write_text(yaml.safe_dump({**data, "seed": 2}))
    done = snakemake(workflow, tmp_path, *job, str(edited))
    assert done.returncode == 1
    assert "edited.yaml has 1 problem:\nrun" in done.stdout
    assert "its file was edited since; start snakemake again" in done.stdout
    # A comment changes nothing.
    edited.write_text(f"# A comment.\n{EXPERIMENT.read_text()}")
    assert snakemake(workflow, tmp_path, *job, str(edited)).returncode == 0


def test_without_a_configfile_the_demo_is_named(workflow: Workflow) -> None:
    done = snakemake(workflow, workflow.project, "--dry-run")
    assert "No --configfile is given: this is the demo, config/config.yaml" in done.stdout


def test_a_source_from_the_future_is_named_before_the_first_job(workflow: Workflow) -> None:
    config = yaml.safe_load(EXPERIMENT.read_text())
    source = workflow.folder / "questions.jsonl"
    shutil.copyfile(EXPERIMENT.parent / source.name, source)
    os.utime(source, (time.time() + 3600,) * 2)
    config["datasets"]["capitals"]["source"] = source.name
    (workflow.folder / "my.yaml").write_text(yaml.safe_dump(config))
    done = snakemake(workflow, workflow.folder, "--configfile", "my.yaml")
    assert done.returncode == 1
    assert "questions.jsonl: its time is in the future" in done.stdout
    assert not (workflow.results / "prompts").exists()
    assert not list((workflow.folder / ".snakemake/locks").glob("*"))


def test_a_failed_job_shows_its_exception_once_and_names_its_log(workflow: Workflow) -> None:
    config = yaml.safe_load(EXPERIMENT.read_text())
    (workflow.folder / "scorer.py").write_text(
        "from dphrl.scoring import CustomScorer, register\n\n@register('one_of')\nclass Mine(CustomScorer):\n"
        "    def score(self, responses, ground_truths):\n        return [True] * len(responses)\n"
    )
    config["scoring"]["custom"]["one_of"] = {"source": "scorer.py"}
    # One job at a time: the audit of the golds would fail with the scoring of the answers.
    process = Workflow.of(workflow.project, workflow.folder, config).start("--cores", "1")
    assert process.wait() == 1
    lines = workflow.output().splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.startswith("FAILED: ")]
    assert lines[place + 1].startswith("  TypeError: ")
    assert "scorer.py: Mine.score returned True (bool) for response 0" in lines[place + 1]
    assert lines[place + 2].startswith("  The log: results/custom-scorer/logs/")
    assert workflow.output().count("Mine.score returned") == 1
    assert "Traceback" not in workflow.output()
    assert "Not finished: 1 job failed." in workflow.output()


def test_a_signal_ends_the_jobs_with_one_line_and_its_exit_status(workflow: Workflow) -> None:
    """SIGINT, which a shell ignores in the background; other signals and kinds of job are in test_signals.py."""
    scorer = (EXPERIMENT.parent / "scorer.py").read_text()
    first_waits = (
        "import os, time\ntry:\n    os.mkdir('working')\n    time.sleep(60)\nexcept FileExistsError:\n    pass\n"
    )
    (workflow.folder / "scorer.py").write_text(first_waits + scorer)
    config = yaml.safe_load(EXPERIMENT.read_text())
    config["scoring"]["custom"]["one_of"]["source"] = "scorer.py"
    workflow = Workflow.of(workflow.project, workflow.folder, config)
    process = workflow.start("presample", background=True)
    while not (workflow.folder / "working").exists():
        assert process.poll() is None, workflow.output()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    # The job would go on for a minute; five seconds are promised on a machine without other work.
    assert process.wait(timeout=15) == 128 + signal.SIGINT
    assert "Interrupted: ending the jobs at work. The same command goes on" in workflow.output()
    assert "Traceback" not in workflow.output()
    assert not workflow.jobs()
    assert not list((workflow.folder / "results").rglob(".*.tmp"))
    workflow.run("presample")
