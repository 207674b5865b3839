"""The oldest Snakemake that the Snakefile accepts runs the tiny workflow."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import ROOT, TINY, Workflow

pytestmark = [pytest.mark.workflow, pytest.mark.full]


@pytest.fixture(scope="module")
def oldest() -> str:
    """The version that the Snakefile asks for."""
    stated = re.search(r'^min_version\("([\d.]+)"\)$', (ROOT / "Snakefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated
    return stated[1]


class WithPackages(Workflow):
    """A run that finds the packages in its folder before those of the environment."""

    @property
    def variables(self) -> dict[str, str]:
        plain = super().variables
        return plain | {"PYTHONPATH": f"{plain['PYTHONPATH']}:{self.folder / 'packages'}"}


def test_it_runs_the_tiny_workflow_and_then_has_nothing_to_do(oldest: str, project: Path, tmp_path: Path) -> None:
    # Its other requirements are those of the pinned version.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "packages")]
    done = subprocess.run([*pip, f"snakemake=={oldest}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no package index: pip cannot install snakemake=={oldest}: {done.stderr.strip()[-200:]}")
    workflow = WithPackages(project, tmp_path, TINY)
    assert workflow.run("--version") == f"{oldest}\n"
    workflow.run()  # which ends with the audit
    assert "Nothing to be done" in workflow.run("--dry-run")
