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
    """A run without a fault, which a test may change."""
    shutil.copytree(built, tmp_path / "run")
    return SmallRun(tmp_path / "run")
