"""Both engines: the checks of every engine, in the precision that they have on a GPU, and the memory that sleep frees.

Needs torch, transformers, polars and pydantic; vLLM for its part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch

pytest.importorskip("polars")
pytest.importorskip("pydantic")

from engine_suite import CHECKS, IN_BFLOAT16, Policy
from tiny_models import HEADS_OF_128

from dphrl.policy.engine import Engine

pytestmark = pytest.mark.gpu

# vLLM has no flash attention in float32.
ENGINES = {
    "transformers-float32": ("transformers", "llama", torch.float32),
    "transformers-bfloat16": ("transformers", "qwen2", torch.bfloat16),
    "vllm-bfloat16": ("vllm", "llama", torch.bfloat16),
}
Check = Callable[[Policy, Engine], None]


@pytest.fixture(scope="module", params=ENGINES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Policy, Engine]]:
    """An engine, and its policy, whose model stays on the CPU.

    Each engine is made once: a process can have one vLLM that sleeps.
    """
    name, kind, dtype = ENGINES[request.param]
    pytest.importorskip(name)
    policy = Policy.write(tmp_path_factory.mktemp("policy"), kind=kind, dtype=dtype, **HEADS_OF_128)
    before = dict(os.environ)
    engine = policy.engine(name)
    yield policy, engine
    engine.sleep()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_every_engine_does(made: tuple[Policy, Engine], check: Check) -> None:
    policy, engine = made
    if policy.dtype == torch.bfloat16 and check not in IN_BFLOAT16:
        pytest.skip("in bfloat16 a response depends on what is computed at the same time")
    check(policy, engine)


@pytest.mark.usefixtures("cuda")
def test_sleep_frees_memory(made: tuple[Policy, Engine]) -> None:
    policy, engine = made
    awake = _in_use()
    engine.sleep()
    asleep = _in_use()
    engine.wake(policy.weights())
    assert asleep < awake


def _in_use() -> int:
    """Bytes of the device without free parts of PyTorch's blocks: a block that other tensors use stays whole."""
    free, total = torch.cuda.mem_get_info()
    return total - free - (torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
