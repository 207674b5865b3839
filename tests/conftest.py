"""Shared by all tests: hypothesis without a deadline, and groups of tests that share something costly."""

import os
from typing import Any

import pytest
from hypothesis import settings

# Before torch is imported: tests that run beside others spend their time in waits of threads for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The duration of an example depends on the machine more than on the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests that share the finished run, the ranks' first segment, models, or vLLM engines. The longest groups come first,
# so that two workers end together; once made, engines hold their memory to the end.
GROUPS = {
    "run": (
        "test_run.py",
        "test_reruns.py",
        "workflow/test_ranks.py",
        "test_corruption.py",
        "test_diagnose.py",
    ),
    "databases": ("test_databases.py",),
    "replay": ("test_replay.py",),
}
GROUPS_OF_UNITS = {
    "engines": ("test_trainer.py", "test_vllm_engine.py"),
    "ranks": ("policy/test_ranks.py",),
    "methods": ("test_methods.py", "test_first_step.py", "test_probed_training.py", "test_divided.py"),
}


def group(nodeid: str) -> str | None:
    """The group of a test."""
    groups = GROUPS if "tests/workflow/" in nodeid else GROUPS_OF_UNITS
    return next((name for name, parts in groups.items() if any(part in nodeid for part in parts)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by group: first in tests/workflow, last in tests/unit, where a group leaves a process group and engines."""
    order = [None, *GROUPS_OF_UNITS, *GROUPS]

    def place(item: pytest.Item) -> tuple[str, int]:
        folder = item.path.relative_to(item.config.rootpath).parts[1]
        position = order.index(group(item.nodeid))
        return folder, (position or len(order)) if folder == "workflow" else position

    # The folders are in the order of the command line.
    folders = list(dict.fromkeys(place(item)[0] for item in items))
    items.sort(key=lambda item: (folders.index(place(item)[0]), place(item)[1]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run each group in one worker, which makes the shared things once; any other test runs in the next free one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        # `--dist loadgroup` of pytest-xdist 3.8 has no effect under pytest 9.2.
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid) or nodeid

    return ByGroup(config, log)
