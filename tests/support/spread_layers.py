"""The program of each rank in a test: two updates of a model whose layers ZeRO-3 divides, in several settings.

Arguments: the output folder of rank 0, after how many seconds a rank that hangs ends, and the settings, each as ZeRO
stage, checkpointing, sharing, dtype and adapters, e.g. 3-checkpointing-on-bfloat16-lora. All matrices are above the
100,000 numbers up to which DeepSpeed keeps a parameter whole.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model
from tiny_training import hardware, train_config
from two_ranks import VOCABULARY, share

import dphrl.policy.logprobs
from dphrl.config.blocks.training import LoraConfig, MethodConfig
from dphrl.policy.collectives import rank, start_process_group, world_size
from dphrl.training.trainer import Trainer

# Relative difference of the gradient's norms, and mean difference of the weights after two steps of 1e-3.
ROUNDING = {"float32": (5e-5, 3e-8), "bfloat16": (3e-2, 1e-4)}
SHAPE = {"hidden_size": 384, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}


def train(setting: str, folder: Path) -> None:
    """Two updates; rank 0 writes the norms of their gradients and the weights after them."""
    stage, checkpointing, sharing, dtype, adapters = setting.split("-")
    model = tiny_model(VOCABULARY, initializer_range=0.05, **SHAPE).to(getattr(torch, dtype))
    machine = hardware(
        ranks=world_size(),
        zero_stage=int(stage),
        gradient_checkpointing=checkpointing == "checkpointing",
        prompt_sharing=sharing,
    )
    lora = LoraConfig(rank=4) if adapters == "lora" else None
    trainer = Trainer(
        model, train_config(dtype=dtype), machine, MethodConfig(divergence="js", eta=0.5, lora=lora), seed=1
    )
    if stage == "3":
        whole = [n for n, p in model.named_parameters() if p.numel() and p.dim() > 1 and "lora_" not in n]
        assert not whole, f"{whole} are not divided"
    norms = [trainer.update(share("uneven"), 1e-3).grad_norm for _ in range(2)]
    weights = {name: weight.float().clone() for name, weight in trainer.named_weights()}
    if rank() == 0:
        save_file(weights, folder / f"{world_size()}-{setting}.weights")
        (folder / f"{world_size()}-{setting}.json").write_text(json.dumps(norms))


def check_alike(folder: Path, name: str, expected: str) -> None:
    """Two trainings, named "<ranks>-<setting>", agree but for rounding."""
    norm, mean = ROUNDING[name.split("-")[4]]
    ours, theirs = (json.loads((folder / f"{one}.json").read_text()) for one in (name, expected))
    assert ours == pytest.approx(theirs, rel=norm), name
    weights, others = (load_file(folder / f"{one}.weights") for one in (name, expected))
    assert weights.keys() == others.keys()
    gaps = torch.cat([(weights[part] - others[part]).abs().flatten() for part in weights])
    assert gaps.mean() < mean, name
    assert gaps.max() < 5e-3, name


def main(folder: str, seconds: str, *settings: str) -> None:
    """Train in each setting."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    start_process_group()
    dphrl.policy.logprobs._LOGITS_PER_CHUNK = VOCABULARY * 16
    for setting in settings:
        train(setting, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
