"""Where the tests of this folder compute: on a GPU, or with `--device cpu` on a CPU, which tests the tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--device", choices=["cuda", "cpu"], default="cuda", help="where tests/gpu computes")


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs of this process and its children, if they are not wanted."""
    if config.getoption("--device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(scope="session", autouse=True)
def device(request: pytest.FixtureRequest) -> str:
    """Where the tests compute; without a GPU they are skipped, unless the CPU is asked for."""
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device: `pytest -m gpu tests/gpu --device cpu` runs on a CPU what can run there")
    return str(name)


@pytest.fixture(scope="session")
def cuda(device: str) -> None:
    """For tests of what a CPU does not have."""
    if device == "cpu":
        pytest.skip("only on a GPU")


@pytest.fixture(scope="module", autouse=True)
def freed(device: str) -> Iterator[None]:
    """Give the memory of a module's tests back to the device: an engine in a child process may need 92 % of it."""
    yield
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
