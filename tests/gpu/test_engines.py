"""Both engines: the checks of every engine, in the precision that they have on a GPU, and the memory that sleep frees.

Needs torch, transformers, polars and pydantic; vLLM for its part.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("polars")
pytest.importorskip("pydantic")

import batch_invariant_engine
from engine_suite import CHECKS, IN_BFLOAT16, Policy
from tiny_models import HEADS_OF_128

from dphrl.rollout.engine import Engine

pytestmark = pytest.mark.gpu

# vLLM has no flash attention in float32.
ENGINES = {
    "transformers-float32": ("transformers", "llama", torch.float32, CHECKS),
    "transformers-bfloat16": ("transformers", "qwen2", torch.bfloat16, IN_BFLOAT16),
    "vllm-bfloat16": ("vllm", "llama", torch.bfloat16, IN_BFLOAT16),
}
Check = Callable[[Policy, Engine], None]


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Policy, Engine]]:
    """An engine, and its policy, whose model stays on the CPU."""
    name, kind, dtype, _ = ENGINES[request.param]
    pytest.importorskip(name)
    policy = Policy.write(tmp_path_factory.mktemp("policy"), kind=kind, dtype=dtype, **HEADS_OF_128)
    before = dict(os.environ)
    engine = policy.engine(name)
    yield policy, engine
    engine.sleep()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("made", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name, (*_, checks) in ENGINES.items()
        for check in checks
    ],
    indirect=["made"],
)
def test_what_every_engine_does(made: tuple[Policy, Engine], check: Check) -> None:
    check(*made)


def test_with_batch_invariance_a_response_of_vllm_does_not_depend_on_others(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    # A process can have one vLLM that sleeps.
    subprocess.run([sys.executable, str(batch_invariant_engine.__file__), str(tmp_path)], check=True)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("made", ENGINES, indirect=True)
def test_sleep_frees_memory(made: tuple[Policy, Engine]) -> None:
    policy, engine = made
    free_awake, _ = torch.cuda.mem_get_info()
    engine.sleep()
    free_asleep, _ = torch.cuda.mem_get_info()
    engine.wake(policy.weights())
    assert free_asleep > free_awake
