"""The workflow on its tiny configuration: one uninterrupted run, and copies of it that a test may disturb.

And the parts of a training: a base policy, one that has moved away from it, recorded rows and stored responses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import Workflow
from tiny_training import process_group, recorded_rows, write_moved_policy, write_policy, write_reference

from dphrl.reference.responses import ReferenceResponses
from dphrl.rollout.engine import Engine
from dphrl.training.loss import Example

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "rules", "workflow_scripts", "config", "profiles")


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose code a test may change."""
    folder = tmp_path_factory.mktemp("house")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, folder / part)
    return folder


@pytest.fixture(scope="session")
def pristine(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished, uninterrupted run; not to be changed."""
    workflow = Workflow(house, tmp_path_factory.mktemp("pristine"), Path(__file__).with_name("tiny.yaml"))
    workflow.run()
    return workflow


@pytest.fixture
def finished(pristine: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run."""
    return pristine.copied(tmp_path / "run")


@pytest.fixture
def code(house: Path) -> Iterator[Path]:
    """The package of the copied project; what a test changes in it is put back."""
    package = house / "workflow_scripts" / "dphrl"
    files = [path for path in package.parent.rglob("*") if path.suffix in (".py", ".j2", ".css", ".js")]
    before = {path: (path.read_bytes(), path.stat()) for path in files}
    yield package
    for path, (content, status) in before.items():
        if path.read_bytes() != content:
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture(scope="module")
def one_rank() -> Iterator[None]:
    """The process group of this process."""
    with process_group():
        yield


@pytest.fixture(scope="session")
def made() -> list[Engine]:
    """Engines that live to the end: vLLM takes the process group with it when one of them goes."""
    return []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that make such engines come last, as their memory is held to the end."""
    holding = {item.path for item in items if "made" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path in holding)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def policy(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_moved_policy(base, tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def examples(policy: Path, base: Path) -> list[Example]:
    return recorded_rows(policy, base)


@pytest.fixture(scope="module")
def reference(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ReferenceResponses:
    return write_reference(base, tmp_path_factory.mktemp("reference"))
