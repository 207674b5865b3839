"""The oldest Snakemake that the Snakefile accepts runs the tiny workflow."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import ROOT, TINY, Workflow, copy_project

pytestmark = [pytest.mark.workflow, pytest.mark.full]


@pytest.fixture(scope="module")
def oldest() -> str:
    """The version that the Snakefile asks for."""
    stated = re.search(r'^min_version\("([\d.]+)"\)$', (ROOT / "Snakefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated
    return stated[1]


@pytest.fixture(scope="module")
def with_oldest(oldest: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with this Snakemake in the folder that is first on the path of its runs."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    # Its other requirements are those of the pinned version.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(project / "workflow_scripts")]
    done = subprocess.run([*pip, f"snakemake=={oldest}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no package index: pip cannot install snakemake=={oldest}: {done.stderr.strip()[-200:]}")
    return project


def test_it_runs_the_tiny_workflow_and_then_has_nothing_to_do(with_oldest: Path, oldest: str, tmp_path: Path) -> None:
    workflow = Workflow(with_oldest, tmp_path, TINY)
    assert workflow.run("--version") == f"{oldest}\n"
    workflow.run()  # which ends with the audit
    assert "Nothing to be done" in workflow.run("--dry-run")
