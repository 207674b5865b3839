"""Shared by the workflow tests: one finished run of the tiny configuration, and copies of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from runs import TINY, Workflow, copy_project
from tiny_models import write_tiny_policy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order: tests of the finished run first, so that one worker makes it while the other runs the rest.

    Of these, those that run jobs in a copy come before the dry runs: a long test at the end leaves a worker idle.
    """
    items.sort(key=lambda item: [name not in getattr(item, "fixturenames", ()) for name in ("pristine", "finished")])


# In the environment of the finished run; test_run.py looks for it.
SECRET = "s3cr3t-of-the-environment"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose code a test may change."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def pristine(project: Path, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished, uninterrupted run. Tests may plan in its folder, with other files of its configuration."""
    temporary = tmp_path_factory.getbasetemp()
    # The workers of pytest-xdist share one run; each gets a copy of it.
    shared = (temporary if worker_id == "master" else temporary.parent) / "finished"
    with FileLock(shared.with_suffix(".lock")):
        if not shared.exists():
            workflow = Workflow(project, tmp_path_factory.mktemp("pristine"), TINY)
            (workflow.folder / "temporary").mkdir()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TMPDIR", str(workflow.folder / "temporary"))
                # Names of GPUs that are not there: on a CPU only their locks matter.
                patch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
                for name in ("DPHRL_SECRET", "HF_TOKEN"):
                    patch.setenv(name, SECRET)
                workflow.run()
            workflow.folder.rename(shared)
        return Workflow(project, shared, TINY).copied(temporary / "run")


@pytest.fixture
def finished(pristine: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run, for a test that runs jobs or changes files."""
    return pristine.copied(tmp_path / "run")


@pytest.fixture
def untrained(project: Path, tmp_path: Path) -> Workflow:
    """The tiny configuration with a random model as base and no methods; nothing has run."""
    write_tiny_policy(tmp_path / "model")
    config = yaml.safe_load(TINY.read_text()) | {"policy": {"base": str(tmp_path / "model")}, "methods": {}}
    # A token of its tokenizer is a letter.
    config["prompts"]["max_tokens"], config["engine"]["max_model_len"] = 200, 256
    return Workflow.of(project, tmp_path, config)


@pytest.fixture
def code(project: Path) -> Iterator[Path]:
    """The package of the copied project; its files are restored after the test."""
    package = project / "workflow_scripts" / "dphrl"
    files = [path for path in package.parent.rglob("*") if path.suffix in (".py", ".j2", ".css", ".js")]
    before = {path: (path.read_bytes(), path.stat()) for path in files}
    yield package
    for path, (content, status) in before.items():
        if path.read_bytes() != content:
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
