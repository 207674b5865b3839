"""What vLLM is asked for, in sampling and in training, on a GPU and on a CPU; and what it must answer to a push."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.policy.engine import Digest
from dphrl.policy.vllm_engine import VllmEngine, _prepare_environment, llm_arguments, model_digests
from dphrl.store.stage import V2_RUNNER

FOLDER, ENGINE = Path("policy"), EngineConfig(name="vllm", dtype="bfloat16", max_model_len=9000)
ALWAYS = {
    "model": "policy",
    "load_format": "safetensors",
    "config_format": "hf",
    "tokenizer_mode": "hf",
    "dtype": "bfloat16",
    "max_model_len": 9000,
    "max_num_batched_tokens": 9000,
    "generation_config": "vllm",
    "logprobs_mode": "raw_logprobs",
    "trust_remote_code": False,
    "seed": 0,
    "disable_log_stats": True,
}
SPREAD = {"distributed_executor_backend": "external_launcher"}
OF_TRAINING = {"max_num_seqs": 256, "gpu_memory_utilization": 0.01, "enable_sleep_mode": True}


@pytest.mark.parametrize(
    ("hardware", "how", "expected"),
    [
        # Sampling: 92 % of the card, 512 sequences, no sleep.
        ({}, {"alone": True}, {"max_num_seqs": 512, "gpu_memory_utilization": 0.92}),
        (
            {"tensor_parallel": 2, "sampling_max_num_seqs": 64},
            {"alone": True, "distributed": True},
            {"max_num_seqs": 64, "gpu_memory_utilization": 0.92, "tensor_parallel_size": 2, **SPREAD},
        ),
        # With a cache of a given size one per cent of the card must be free.
        (
            {"sampling_kv_cache_gib": 10},
            {"alone": True},
            {"max_num_seqs": 512, "gpu_memory_utilization": 0.01, "kv_cache_memory_bytes": 10 * 2**30},
        ),
        # Training: the cache of its key, whatever sampling jobs have.
        ({}, {"distributed": True}, {**OF_TRAINING, "kv_cache_memory_bytes": 24 * 2**30, **SPREAD}),
        (
            {"tensor_parallel": 4, "ranks": 8, "kv_cache_gib": 0.5, "max_num_seqs": 16, "sampling_kv_cache_gib": 60},
            {"distributed": True},
            {
                **OF_TRAINING,
                "max_num_seqs": 16,
                "kv_cache_memory_bytes": 2**29,
                "tensor_parallel_size": 4,
                **SPREAD,
            },
        ),
    ],
)
def test_the_arguments_on_a_gpu(hardware: dict[str, Any], how: dict[str, bool], expected: dict[str, Any]) -> None:
    how = {"distributed": False, "alone": False, **how}
    found = llm_arguments(FOLDER, ENGINE, HardwareConfig(**hardware), on_gpu=True, **how)
    assert found == {**ALWAYS, "tensor_parallel_size": 1, **expected}


@pytest.mark.parametrize(("chosen", "expected"), [(None, "0"), ("1", "1")])
def test_the_model_runner_is_v1_unless_the_user_chooses(
    chosen: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    os.environ.pop(V2_RUNNER, None)
    if chosen:
        os.environ[V2_RUNNER] = chosen
    _prepare_environment(1.0, batch_invariant=False)
    assert os.environ[V2_RUNNER] == expected


@pytest.mark.parametrize("alone", [False, True])
def test_the_arguments_on_a_cpu_are_those_of_training_in_sampling_too(alone: bool) -> None:
    """So that responses on a CPU stay as they are."""
    found = llm_arguments(FOLDER, ENGINE, HardwareConfig(), distributed=False, alone=alone, on_gpu=False)
    on_cpu = {"max_num_seqs": 256, "enforce_eager": True, "enable_chunked_prefill": False}
    assert found == {**ALWAYS, "tensor_parallel_size": 1, **on_cpu}


class Llm:
    """As much of `vllm.LLM` as a push needs."""

    def __init__(self, resets: bool) -> None:
        self.resets = resets

    def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
        assert method == "reload_weights"
        assert [*kwargs["weights_iterator"]] == []

    def apply_model(self, function: object) -> None:
        """Nothing."""

    def reset_prefix_cache(self) -> bool:
        return self.resets


def test_a_prefix_cache_of_old_weights_is_an_error() -> None:
    engine = VllmEngine.__new__(VllmEngine)
    engine._asleep, engine._llm = False, Llm(resets=True)
    engine.wake([])
    engine._llm = Llm(resets=False)
    with pytest.raises(RuntimeError, match="vLLM kept its prefix cache after new weights were loaded"):
        engine.wake([])


class Fused(nn.Linear):
    """A fused layer, as vLLM's: its parts one below the other."""

    def __init__(self, width: int, sizes: list[int], *, bias: bool) -> None:
        super().__init__(width, sum(sizes), bias=bias)
        self.output_partition_sizes = sizes


class Model(nn.Module):
    """The layers of a model of vLLM whose weights have another form than when they were pushed, and one as pushed."""

    packed_modules_mapping: ClassVar = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }

    def __init__(self, pushed: dict[str, Tensor]) -> None:
        super().__init__()
        block = nn.Module()
        block.qkv_proj, block.gate_up_proj = Fused(8, [6, 2, 2], bias=True), Fused(8, [5, 5], bias=False)
        block.o_proj, block.packed = nn.Linear(6, 8, bias=False), nn.Linear(0, 8, bias=False)
        self.layers = nn.ModuleList([block])
        with torch.no_grad():
            for name, parts in self.packed_modules_mapping.items():
                for kind, fused in block.get_submodule(name).named_parameters():
                    fused.copy_(torch.cat([pushed[f"layers.0.{part}.{kind}"] for part in parts]))
            block.o_proj.weight.copy_(pushed["layers.0.o_proj.weight"])


def test_the_parts_of_fused_weights_have_the_digests_of_what_was_pushed() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"q_proj.weight": (6, 8), "k_proj.weight": (2, 8), "v_proj.weight": (2, 8)}
    shapes |= {"q_proj.bias": (6,), "k_proj.bias": (2,), "v_proj.bias": (2,), "o_proj.weight": (8, 6)}
    shapes |= {"gate_proj.weight": (5, 8), "up_proj.weight": (5, 8)}
    pushed = {f"layers.0.{name}": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    expected = {name: Digest.of(tensor) for name, tensor in pushed.items()}
    assert model_digests(Model(pushed)) == expected
    # One stale part of a fused weight is found by its name.
    stale = Model(pushed | {"layers.0.k_proj.weight": pushed["layers.0.v_proj.weight"]})
    assert {name for name, digest in model_digests(stale).items() if digest != expected[name]} == {
        "layers.0.k_proj.weight"
    }
