"""Models whose weights the ranks divide between them (ZeRO-3): a layer is whole only while it computes."""

from typing import Any

import torch
from torch import nn

from dphrl.config.blocks.base import Dtype


def partition(model: nn.Module, settings: dict[str, Any]) -> None:
    """Divide the parameters of a model on the CPU between the ranks, one after the other.

    DeepSpeed's own initialisation would first move the whole model to the GPU.
    """
    import deepspeed

    dtype = torch.bfloat16 if settings["bf16"]["enabled"] else torch.float32
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)  # Not copied if it has this type, as all but new adapters do.
    deepspeed.zero.Init(module=model, config_dict_or_path=settings)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(deepspeed.accelerator.get_accelerator().current_device_name())


def divide_frozen(module: nn.Module, dtype: Dtype) -> None:
    """Divide a model of this dtype that is not trained; its calls, which all ranks make together, gather the weights.

    Args:
        module: on the CPU.
    """
    import deepspeed

    settings = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": dtype == "bfloat16"},
    }
    partition(module.requires_grad_(False), settings)
    deepspeed.initialize(model=module, config=settings)  # Adds the hooks that gather a layer's weights.
