"""A base policy, a policy that has moved away from it, recorded rows and stored responses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import write_tiny_policy
from tiny_training import recorded_rows, write_moved_policy, write_reference

from dphrl.training.loss import Example
from dphrl.training.stored_responses import ReferenceResponses


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
