"""Another workflow imports this one as a module, from GitHub; and a first configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from runs import ROOT, Workflow

from dphrl.report.audit import audit_run
from dphrl.store.parquet import read_footer

pytestmark = pytest.mark.workflow

OUTER = """\
configfile: "config.yaml"


module dphrl:
    snakefile:
        github("OWNER/dph-rl", path="Snakefile", tag="v0.6.0")
    config:
        config["dphrl"]


use rule * from dphrl as dphrl_*


onstart:
    dphrl.onstart()


onsuccess:
    dphrl.onsuccess()


rule all:
    default_target: True
    input:
        rules.dphrl_all.input,
        "best.txt",


rule best:
    input:
        "results/custom-scorer/tables/headline.csv",
    output:
        "best.txt",
    shell:
        "tail -n 1 {input} > {output}"
"""


def outer(folder: Path, project: Path) -> None:
    """A workflow in `folder` with the example of a custom scorer as a part of its configuration."""
    config = yaml.safe_load((ROOT / "examples/custom_scorer/config.yaml").read_text())
    (folder / "Snakefile").write_text(OUTER)
    (folder / "config.yaml").write_text(yaml.safe_dump({"dphrl": config}))
    (folder / "examples").symlink_to(project / "examples")


def publish(project: Path, clone: Path) -> None:
    """Put the project where Snakemake keeps its clone of a repository, so that it needs no network."""
    by = ["-c", "user.name=any", "-c", "user.email=any"]
    for command in (["init", "-q"], ["add", "-A"], [*by, "commit", "-qm", "all"], ["tag", "v0.6.0"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(project), str(clone)], check=True)


def snakemake(folder: Path, project: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(project / "workflow_scripts"), "OMP_NUM_THREADS": "1"}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


def test_a_module_from_github_runs_beside_other_rules_and_its_artifacts_pass_the_audit(
    project: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "outer"
    folder.mkdir()
    outer(folder, project)
    publish(project, folder / "cache/snakemake/snakemake/source-cache/snakemake-git-cache/github.com/OWNER/dph-rl")
    printed = snakemake(folder, project)
    counts = {words[0]: words[1] for line in printed.splitlines() if len(words := line.split()) == 2}
    drawn = ("dphrl_sample", "dphrl_sample_draw", "dphrl_score", "dphrl_score_draw")
    assert [counts[name] for name in (*drawn, "dphrl_audit", "best", "all")] == list("1212111")
    assert "this is the demo" not in printed
    assert "run custom-scorer: " in printed, "what the module does at the start"
    assert "Report: results/custom-scorer/report/index.html" in printed, "and at the end"
    assert (folder / "best.txt").read_text().startswith("Base")
    assert "Nothing to be done" in snakemake(folder, project)

    results = folder / "results/custom-scorer"
    assert read_footer(results / "tables/headline.parquet")["stage"] == "make_tables"
    assert audit_run(results).faults == {}


def test_a_first_configuration_of_fifty_rows_is_planned(project: Path, tmp_path: Path) -> None:
    rows = [{"question": f"What is {number} + 1?", "answer": number + 1} for number in range(50)]
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "model").symlink_to(project / "config/world-1")
    environment = os.environ | {"PYTHONPATH": str(project / "workflow_scripts")}
    command = [sys.executable, "-m", "dphrl", "init", "--data", "my.jsonl", "--model", "model", "--cpu"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    plan = Workflow(project, tmp_path, tmp_path / "my.yaml", "my").plan()
    trained = [job for job in plan if job.startswith("training ")]
    assert trained == [f"training {name}, seed 1, up to step {step}" for name in ("dph_js", "grpo") for step in (16, 8)]
    assert {"sampling base on train (presample, draw main)", "writing model cards", "writing the report"} <= {*plan}
