"""Both engines on a GPU: the checks of every engine, and the memory that sleep frees."""

import importlib.util
import os
from collections.abc import Callable, Iterator

import pytest
import torch
from engine_suite import CHECKS, Policy

from dphrl.rollout.engine import Engine

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """The model that engines are compared with stays on the CPU."""
    return Policy.write(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module", params=["transformers", "vllm"])
def engine(request: pytest.FixtureRequest, policy: Policy) -> Iterator[Engine]:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    before = dict(os.environ)
    yield policy.engine(request.param)
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_every_engine_does(check: Callable[[Policy, Engine], None], policy: Policy, engine: Engine) -> None:
    check(policy, engine)


def test_sleep_frees_memory(policy: Policy, engine: Engine) -> None:
    free_awake, _ = torch.cuda.mem_get_info()
    engine.sleep()
    free_asleep, _ = torch.cuda.mem_get_info()
    engine.wake(policy.weights())
    assert free_asleep > free_awake
