"""The DeepSpeed engine of a model: ZeRO, precision, AdamW with clipping."""

import math
from typing import Any

import torch
from torch import nn

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import TrainConfig
from dphrl.ranks.divided import partition

_EPSILON = 1e-8
# Most gradients that ranks sum at once: DeepSpeed's default.
_BUCKET_ELEMENTS = 500_000_000


class ClippedAdamW(torch.optim.AdamW):
    """AdamW that clips the gradient, and skips an update whose gradient is not finite.

    DeepSpeed's ZeRO and bfloat16 optimizers do both. Without either it only clips, reports no norm, and would apply an
    update of NaN. DeepSpeed reads the two attributes.

    Attributes:
        overflow: whether the last update was skipped.
    """

    overflow = False
    _global_grad_norm = 0.0

    def __init__(self, *args: Any, clip_grad_norm: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clip_grad_norm = clip_grad_norm

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step, if the gradient is finite."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        norm = float(nn.utils.clip_grad_norm_(parameters, self._clip_grad_norm))
        self.overflow = not math.isfinite(norm)
        self._global_grad_norm = math.inf if self.overflow else norm
        if not self.overflow:
            super().step()


def initialize(model: nn.Module, config: TrainConfig, hardware: HardwareConfig) -> Any:
    """A DeepSpeed engine that trains the parameters of a model that require a gradient.

    Args:
        model: on the CPU; with ZeRO-3 it is never whole on the GPU.
    """
    import deepspeed

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # The learning rate is set with each update.
    adam = {"lr": 0.0, "betas": list(config.betas), "eps": _EPSILON, "weight_decay": config.weight_decay}
    settings, optimizer = _settings(config, hardware, sum(parameter.numel() for parameter in trained)), None
    if hardware.zero_stage == 0 and config.dtype == "float32":
        optimizer = ClippedAdamW(trained, **adam, clip_grad_norm=config.clip_grad_norm)
        settings["gradient_clipping"] = 0.0  # DeepSpeed would clip again, by default to 1.
    else:
        # PyTorch's own AdamW: DeepSpeed's would be compiled on first use.
        settings["optimizer"] = {"type": "AdamW", "params": {**adam, "torch_adam": True}}
    if hardware.zero_stage == 3:
        partition(model, settings)
    engine, *_ = deepspeed.initialize(model=model, config=settings, model_parameters=trained, optimizer=optimizer)
    if hardware.zero_stage == 0:
        # Without ZeRO PyTorch accumulates the gradients, by default in the parameter's type.
        for parameter in trained:
            parameter.grad_dtype = torch.float32
        # In bfloat16 initialisation runs one zero-length step; clear its state so Adam's step count starts at 0.
        engine.optimizer.state.clear()
    return engine


def _settings(config: TrainConfig, hardware: HardwareConfig, elements: int) -> dict[str, Any]:
    # DeepSpeed allocates the bucket even for a small model: 2 GB at the default size in float32.
    zero: dict[str, Any] = {"stage": hardware.zero_stage, "reduce_bucket_size": min(elements, _BUCKET_ELEMENTS)}
    if hardware.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        # The number of micro-batches depends on the rows' lengths: only step() ends an accumulation.
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.clip_grad_norm,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": config.dtype == "bfloat16"},
        # Over many micro-batches sums in bfloat16 would be off by percents.
        "data_types": {"grad_accum_dtype": "fp32"} if hardware.zero_stage else {},
        "steps_per_print": 1 << 40,
    }
