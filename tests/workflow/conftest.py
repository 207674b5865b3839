"""Shared by the workflow tests: one finished run of the tiny configuration, and what a training needs.

A training needs a base policy, a policy that has moved away from it, recorded rows and stored responses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
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
    (workflow.folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(workflow.folder / "temporary"))
        # Names of GPUs that are not there: on a CPU only their locks matter.
        patch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        workflow.run()
    return workflow


@pytest.fixture
def finished(pristine: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run, which a test may change."""
    return pristine.copied(tmp_path / "run")


@pytest.fixture
def untrained(project: Path, tmp_path: Path) -> Workflow:
    """The tiny configuration with a random model as base and no methods; nothing has run."""
    write_tiny_policy(tmp_path / "model")
    config = yaml.safe_load(TINY.read_text()) | {"policy": {"base": str(tmp_path / "model")}, "methods": {}}
    # A token of its tokenizer is a letter.
    config["prompts"]["max_tokens"], config["engine"]["max_model_len"] = 200, 256
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return Workflow(project, tmp_path, tmp_path / "config.yaml")


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


@pytest.fixture(scope="module")
def one_rank() -> Iterator[None]:
    """The process group of this process."""
    with process_group():
        yield


@pytest.fixture(scope="session")
def made() -> list[Engine]:
    """Engines kept alive for the whole session: deleting a vLLM engine destroys the process group."""
    return []


# Tests that share something costly: the finished run, the ranks' first segment, models, or vLLM engines. The longest
# groups come first, so that two workers end together; once made, engines hold their memory to the end.
GROUPS = {
    "run": (
        "test_run.py",
        "test_reruns.py",
        "test_a_killed_run",
        "test_the_launcher",
        "test_corruption.py",
        "test_diagnose.py",
        "of_a_run",
    ),
    "ranks": ("test_ranks.py", "workflow/test_reference.py"),
    "methods": ("test_methods.py",),
    "engines": ("test_trainer.py", "test_engines.py"),
    "databases": ("test_databases.py",),
    "replay": ("test_replay.py",),
}


def group(nodeid: str) -> str | None:
    """The group of a test."""
    return next((name for name, parts in GROUPS.items() if any(part in nodeid for part in parts)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the workflow tests by group."""
    order = [*GROUPS, None]
    items.sort(key=lambda item: order.index(group(item.nodeid)) if "tests/workflow/" in item.nodeid else -1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run each group in one worker, which makes the shared things once; any other test runs in the next free one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        # `--dist loadgroup` of pytest-xdist 3.8 has no effect under pytest 9.2.
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid) or nodeid

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random policy."""
    folder = tmp_path_factory.mktemp("base")
    # With this seed the first step has rollouts that carry a signal.
    write_tiny_policy(folder, seed=13)
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
