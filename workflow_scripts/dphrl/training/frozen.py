"""A policy that is only evaluated, and leaves the GPU to the engine while that generates."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from torch import nn

from dphrl.config.blocks.base import Dtype
from dphrl.ranks.divided import divide_frozen


class FrozenModel:
    """With ZeRO-3 divided between the ranks like the trained policy, else on the CPU between uses.

    Args:
        module: on the CPU, of this dtype.
        device: where it is evaluated.
    """

    def __init__(self, module: nn.Module, dtype: Dtype, zero_stage: int, device: str) -> None:
        self._module, self._device = module.requires_grad_(False), device
        self._partitioned = zero_stage == 3
        if self._partitioned:
            divide_frozen(module, dtype)

    @contextmanager
    def loaded(self) -> Iterator[nn.Module]:
        """The module, ready to be called."""
        # The tensors on the CPU stay: weights that are mapped from a file would be copies if they came back.
        moved = () if self._partitioned else chain(self._module.parameters(), self._module.buffers())
        held = [(tensor, tensor.data) for tensor in moved]
        for tensor, data in held:
            tensor.data = data.to(self._device)
        yield self._module
        for tensor, data in held:
            tensor.data = data
