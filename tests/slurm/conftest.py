"""A cluster of two nodes for the session, and a copy of the project that runs on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cluster import Cluster, missing, running
from runs import TINY, copy_project
from submitted import Submitted


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster in a new folder with a short name, because the path of a socket must be short."""
    if lacking := missing():
        pytest.fail("\n".join(f"missing: {what}" for what in lacking), pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with running(folder) as started:
        yield started
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project that no one edits during the run."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def workflow(project: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Submitted:
    """The tiny workflow with one method; its training and its reference have two ranks, which divide the weights."""
    config = yaml.safe_load(TINY.read_text())
    config["toy"]["threads"] = 1
    config["engine"]["name"] = "transformers"
    config["hardware"] |= {"ranks": 2, "zero_stage": 3}
    config["train"]["keep_state"] = "all"  # The last segment is repeated by itself.
    config["evaluate"]["datasets"] = ["in_domain"]
    del config["methods"]["grpo"], config["datasets"]["maths"]
    return replace(Submitted.of(project, tmp_path_factory.mktemp("run"), config), cluster=cluster)
