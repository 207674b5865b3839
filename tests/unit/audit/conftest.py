"""A small run, made once, and copies of it that a test may damage."""

import shutil
from pathlib import Path

import pytest
from small_run import SmallRun, build


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("audit") / "small"
    build(root)
    return root


@pytest.fixture
def small_run(built: Path, tmp_path: Path) -> SmallRun:
    """A run without a fault, and without an end, which a test may change."""
    shutil.copytree(built, tmp_path / "run")
    return SmallRun(tmp_path / "run")


@pytest.fixture
def finished(small_run: SmallRun) -> SmallRun:
    """The same run with SHA256SUMS."""
    small_run.finish()
    return small_run
