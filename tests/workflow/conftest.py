"""Shared by the workflow tests: one finished run of the tiny configuration, and what a training needs.

A training needs a base policy, a policy that has moved away from it, recorded rows and stored responses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import TINY, Workflow, copy_project
from tiny_models import write_tiny_policy
from tiny_training import process_group, recorded_rows, write_moved_policy, write_reference

from dphrl.reference.responses import ReferenceResponses
from dphrl.rollout.engine import Engine
from dphrl.training.loss import Example


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose code a test may change."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def pristine(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished, uninterrupted run; not to be changed."""
    workflow = Workflow(project, tmp_path_factory.mktemp("pristine"), TINY)
    workflow.run()
    return workflow


@pytest.fixture
def finished(pristine: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run, which a test may change."""
    return pristine.copied(tmp_path / "run")


@pytest.fixture
def code(project: Path) -> Iterator[Path]:
    """The package of the copied project; its files are restored after the test."""
    package = project / "workflow_scripts" / "dphrl"
    before = {path: (path.read_bytes(), path.stat()) for path in package.rglob("*.py")}
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
    """Engines kept alive for the whole session: deleting a vLLM engine destroys the process group."""
    return []


# What takes longest comes first, so that two workers end together; vLLM engines hold their memory once they are made.
GROUPS = ("run", "test_ranks", "test_methods", "engines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share something costly in one worker, under `-n 2 --dist loadgroup`: each group makes it once."""
    in_process = {item.path for item in items if "made" in item.fixturenames}

    def group(item: pytest.Item) -> str:
        if "pristine" in item.fixturenames:
            return "run"
        return "engines" if item.path in in_process else item.path.stem

    def order(item: pytest.Item) -> int:
        return GROUPS.index(group(item)) if group(item) in GROUPS else len(GROUPS)

    for item in items:
        if group(item) in GROUPS:
            item.add_marker(pytest.mark.xdist_group(group(item)))
    items.sort(key=order)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random policy."""
    folder = tmp_path_factory.mktemp("base")
    write_tiny_policy(folder, seed=3)
    return folder


@pytest.fixture(scope="session")
def policy(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy after much training: its log-ratios to the base policy are of order 1."""
    return write_moved_policy(base, tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="session")
def examples(policy: Path, base: Path) -> list[Example]:
    return recorded_rows(policy, base)


@pytest.fixture(scope="session")
def reference(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ReferenceResponses:
    return write_reference(base, tmp_path_factory.mktemp("reference"))
